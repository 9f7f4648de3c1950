"""What a later stage refuses, at the place in the spec that asked for it."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.diagnostics import Diagnostic, Span, SpecError
from kgen.frontend.hf import written_out
from kgen.frontend.names import place_of
from kgen.ir.problem import Problem
from kgen.spec.models import ModelSpec


def located(spec: ModelSpec, problems: Iterable[str]) -> SpecError:
    """The problems of the graph of `spec` as an error with places.

    A problem of each iteration of a repeated operator is told once. What is about neither an operator nor a
    runtime limit stands at the start of the spec.
    """
    expanded = written_out(spec)
    seen: dict[tuple[Span, str], Diagnostic] = {}
    for sentence in problems:
        problem = sentence if isinstance(sentence, Problem) else Problem(sentence)
        span = _span(expanded, problem)
        told = problem.replace(problem.operator, "") if problem.operator else str(problem)
        seen.setdefault((span, told), Diagnostic(span, str(problem)))
    return SpecError(seen.values())


def _span(spec: ModelSpec, problem: Problem) -> Span:
    if problem.setting:
        at = ("runtime", problem.setting)
        return spec.span(*at) if at in spec.document.values else spec.key_span(("runtime",))
    path = place_of(spec, problem.operator)
    return spec.span(*path, "op") if path else spec.span()
