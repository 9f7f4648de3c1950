"""kgen generate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgen.cli.output import ExitCode, UsageError, counted, data, say, stop
from kgen.cli.projects import some_path
from kgen.cli.specs import SpecArgument, compile_spec


def generate(
    spec: SpecArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            parser=some_path,
            metavar="DIR",
            help="The project's folder [default: the spec's name].",
        ),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print what would change; write nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 when DIR is not up to date.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that were edited by hand.")] = False,
) -> None:
    """Write the project for a spec. Files of yours in DIR are left alone."""
    if diff + check + force > 1:
        raise UsageError("--diff, --check and --force exclude each other")

    from kgen.render.project import render_project
    from kgen.render.writer import check_tree, diff_tree, write_tree

    compilation = compile_spec(spec)
    tree = render_project(compilation)
    dest = out or Path(compilation.plan.name)
    if diff:
        text = diff_tree(tree, dest)
        if text:
            data(text)
        return
    if check:
        stale = check_tree(tree, dest)
        if stale:
            say(f"{dest} is not up to date:\n" + "\n".join(f"  {path}" for path in stale))
            raise stop(ExitCode.STALE)
        say(f"{dest} is up to date")
        return
    report = write_tree(tree, dest, force=force)
    removed = f", {len(report.removed)} removed" if report.removed else ""
    say(f"{dest}: {counted(len(report.written), 'file')} written, {len(report.unchanged)} unchanged{removed}")
    for path in report.kept:
        say(f"{dest / path} is no longer generated, but was edited and is left alone")
