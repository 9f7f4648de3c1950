"""kgen check"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kgen.cli.output import ExitCode, counted, data_json, say, stop
from kgen.cli.specs import SpecArgument, compile_loaded, spec_path

if TYPE_CHECKING:
    from kgen.passes.kernel.pipeline import KernelCompilation
    from kgen.passes.pipeline import Compilation
    from kgen.plan.plan import Plan


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
    from kgen.frontend.check import load_any

    try:
        summary = _summary(compile_loaded(load_any(spec_path(spec))))
    except SpecError as error:
        if not as_json:
            raise
        data_json(error.to_json())
        raise stop(ExitCode.BAD_INPUT) from error
    if as_json:
        data_json([])
        return
    say(summary)


def _summary(compilation: Compilation | KernelCompilation) -> str:
    from kgen.passes.kernel.pipeline import KernelCompilation

    return _kernel(compilation) if isinstance(compilation, KernelCompilation) else _plan(compilation.plan)


def _kernel(compilation: KernelCompilation) -> str:
    from kgen.diagnostics import one_of

    graph, plan = compilation.graph, compilation.plan
    operators, tensors = counted(len(graph.ops), "operator"), counted(len(graph.tensors), "tensor")
    worlds = one_of([str(world) for world in plan.worlds])
    return f"{graph.name}: correct; {operators}, {tensors}, world {worlds}"


def _plan(plan: Plan) -> str:
    operators, events = counted(len(plan.ops), "operator"), counted(len(plan.events), "event")
    tasks = counted(sum(run.count for run in plan.runs), "task")
    return f"{plan.name}: correct; {operators}, {tasks}, {events}, the start event counted"
