"""kgen explain"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from kgen.cli.output import UsageError, data_json
from kgen.cli.specs import BatchOption, SpecArgument, WorkersOption, compile_spec

if TYPE_CHECKING:
    from kgen.report.explain import ExplainReport
    from kgen.report.kernel import KernelReport

_SIZE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([0-9]{1,10})")


def explain(
    spec: SpecArgument,
    as_json: Annotated[bool, typer.Option("--json", help="The same for a machine.")] = False,
    batch: BatchOption = None,
    workers: WorkersOption = None,
    dims: Annotated[
        str | None,
        typer.Option(
            metavar="M=4096,...", help="Of a kernel: sizes of a call [default: some of each range]."
        ),
    ] = None,
    world: Annotated[
        int | None, typer.Option(min=1, help="Of a kernel: the ranks [default: the fewest that are several].")
    ] = None,
) -> None:
    """Show what the compiler made of a spec.

    Of a model what each pass did; of a kernel what was chosen, why, and what a call should take.
    """
    report = _report(spec, batch, workers, _sizes(dims), world)
    if as_json:
        data_json(report.to_json())
        return
    from rich.console import Console

    Console().print(report.to_table())


def _report(
    spec: str, batch: int | None, workers: int | None, dims: dict[str, int] | None, world: int | None
) -> ExplainReport | KernelReport:
    from kgen.passes.pipeline import Compilation

    compilation = compile_spec(spec, batch=batch, workers=workers)
    if isinstance(compilation, Compilation):
        from kgen.report.explain import explain as explain_model

        _refuse(spec, "a model", {"--dims": dims, "--world": world})
        return explain_model(compilation)
    from kgen.report.kernel import explain_kernel

    _refuse(spec, "a kernel", {"--batch": batch, "--sms": workers})
    try:
        return explain_kernel(compilation, dims, world)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _refuse(spec: str, what: str, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"{spec} is {what}, which has no {name}")


def _sizes(text: str | None) -> dict[str, int] | None:
    if text is None:
        return None
    found: dict[str, int] = {}
    for part in text.split(","):
        match = _SIZE.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"--dims: '{part}' is not NAME=NUMBER, such as M=4096")
        if match[1] in found:
            raise UsageError(f"--dims: {match[1]} is given twice")
        found[match[1]] = int(match[2])
    return found
