"""What a later stage refuses of a kernel, at the place in the spec that asked for it."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.diagnostics import Diagnostic, Span, SpecError
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.problem import Problem
from kgen.spec.kernel import KernelSpec


def located_kernel(spec: KernelSpec, graph: KernelGraph, problems: Iterable[str]) -> SpecError:
    """The problems of the graph of `spec` as an error with places.

    What is about no operator stands at the graph.
    """
    return SpecError(
        Diagnostic(_span(spec, graph, problem), str(problem), problem.expected)
        for problem in (p if isinstance(p, Problem) else Problem(p) for p in problems)
    )


def _span(spec: KernelSpec, graph: KernelGraph, problem: Problem) -> Span:
    for i, op in enumerate(graph.ops):  # one for each entry of the spec, in order
        if op.name == problem.operator:
            return spec.span("graph", i, "op")
    return spec.key_span(("graph",))
