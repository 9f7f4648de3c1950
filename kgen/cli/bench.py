"""kgen bench"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from kgen.cli.output import ExitCode, data_json, progress, stop
from kgen.cli.projects import JobsOption, PresetOption, ProjectArgument, some_path

_CASE = re.compile(r"[1-9]\d*x[1-9]\d*")


def _case(text: str) -> str:
    if not _CASE.fullmatch(text):
        raise typer.BadParameter(f"'{text}' is not BATCHxCONTEXT, such as 4x1024")
    return text


def bench(
    project: ProjectArgument,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            parser=_case,
            metavar="BATCHxCONTEXT",
            help="Sequences at once, and tokens in the cache of each; may be given again.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            "-w",
            parser=some_path,
            metavar="FILE",
            help="A packed file [default: random weights].",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Steps to decode besides, in calls that must agree.")] = 0,
    torch: Annotated[bool, typer.Option("--torch/--no-torch", help="Use PyTorch if it is installed.")] = True,
    preset: PresetOption = "auto",
    jobs: JobsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Build a project, time its steps and check them. Exit 1 on wrong output."""
    from kgen.toolchain.bench import run_bench
    from kgen.toolchain.build import build_project, choose_preset

    chosen = choose_preset(preset)
    with progress(f"building {project} for {chosen}") as show:
        build_project(project, chosen, jobs=jobs, progress=show)
    arguments = [f"--steps={steps}", *(["--case", *case] if case else [])]
    arguments += [f"--weights={weights}"] if weights else []
    arguments += [] if torch else ["--no-torch"]
    code, report = run_bench(project, chosen, arguments, table=not as_json)
    if as_json and report is not None:
        data_json(report)
    if code != 0:
        raise stop(ExitCode.STALE if code == ExitCode.STALE else ExitCode.BAD_INPUT)
