"""kgen check"""

from __future__ import annotations

from typing import Annotated

import typer

from kgen.cli.output import ExitCode, counted, data_json, say, stop
from kgen.cli.specs import SpecArgument, compile_spec


def check(
    spec: SpecArgument,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the errors as a JSON list with file, line, col, message and so on; [] if none.",
        ),
    ] = False,
) -> None:
    """Read and compile a spec; report every error with its place. Exit 2 if there is one."""
    from kgen.diagnostics import SpecError

    try:
        plan = compile_spec(spec).plan
    except SpecError as error:
        if not as_json:
            raise
        data_json(error.to_json())
        raise stop(ExitCode.BAD_INPUT) from error
    if as_json:
        data_json([])
        return
    operators, events = counted(len(plan.ops), "operator"), counted(len(plan.events), "event")
    tasks = counted(sum(run.count for run in plan.runs), "task")
    say(f"{plan.name}: correct; {operators}, {tasks}, {events}, the start event counted")
