"""kgen explain"""

from __future__ import annotations

from typing import Annotated

import typer

from kgen.cli.output import data_json
from kgen.cli.specs import BatchOption, SpecArgument, WorkersOption, compile_spec


def explain(
    spec: SpecArgument,
    as_json: Annotated[bool, typer.Option("--json", help="The same for a machine.")] = False,
    batch: BatchOption = None,
    workers: WorkersOption = None,
) -> None:
    """Show what each pass of the compiler made of a spec."""
    from kgen.report.explain import explain as explain_compilation

    report = explain_compilation(compile_spec(spec, batch=batch, workers=workers))
    if as_json:
        data_json(report.to_json())
        return
    from rich.console import Console

    Console().print(report.to_table())
