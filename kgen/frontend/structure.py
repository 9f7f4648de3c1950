"""What a model must consist of: one embedding first, one logits, one sample last, a cache of one shape."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.diagnostics import Diagnostic
from kgen.spec import ops
from kgen.spec.document import At
from kgen.spec.models import ModelSpec

GRAPH: At = ("graph",)


def walk(spec: ModelSpec) -> Iterator[tuple[At, ops.OpSpec, str | None]]:
    """Every operator as it is written: its path, itself, and the dim it repeats over."""
    for i, item in enumerate(spec.graph):
        if isinstance(item, ops.RepeatSpec):
            for j, op in enumerate(item.do):
                yield (*GRAPH, i, "do", j), op, item.repeat
        else:
            yield (*GRAPH, i), item, None


def check_structure(spec: ModelSpec) -> list[Diagnostic]:
    """Errors in which operators there are and in which order."""
    if spec.gaps.graph:
        return []
    found: dict[str, list[tuple[At, ops.OpSpec]]] = {}
    errors: list[Diagnostic] = []
    written = list(walk(spec))
    for path, op, repeat in written:
        if op.op in ("embedding", "logits", "sample"):
            if repeat:
                errors.append(
                    Diagnostic(spec.span(*path, "op"), f"{op.op} cannot repeat", "it outside of 'do'")
                )
            elif op.op in found:
                errors.append(
                    Diagnostic(spec.span(*path, "op"), f"a second {op.op}", f"one {op.op} in a model")
                )
        found.setdefault(op.op, []).append((path, op))
    for kind in ("embedding", "attention", "logits", "sample"):
        if kind not in found:
            errors.append(
                Diagnostic(
                    spec.key_span(GRAPH), f"the graph has no {kind}", f"an operator {{op: {kind}, ...}}"
                )
            )
    if "embedding" in found and written[0][1].op != "embedding":
        errors.append(
            Diagnostic(
                spec.span(*written[0][0], "op"), f"the graph starts with {written[0][1].op}", "embedding"
            )
        )
    if "sample" in found and written[-1][1].op != "sample":
        errors.append(
            Diagnostic(spec.span(*written[-1][0], "op"), f"the graph ends with {written[-1][1].op}", "sample")
        )
    if "embedding" in found and "sample" in found:
        tokens = found["embedding"][0][1].inputs[0]
        path, sample = found["sample"][0]
        if sample.out != tokens:
            message = f"sample writes '{sample.out}', but the embedding of the next step reads '{tokens}'"
            errors.append(Diagnostic(spec.span(*path, "out"), message, f"out: {tokens}", tokens))
    return errors
