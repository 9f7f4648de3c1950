"""`kgen expand`: the spec with nothing left to choose, as YAML that gives the same graph."""

from __future__ import annotations

from typing import Any

from kgen.frontend.build import build_graph
from kgen.frontend.emit import emit
from kgen.frontend.hf import written_out
from kgen.frontend.sizes import BATCH, ROWS
from kgen.ir.attention import Attention
from kgen.ir.graph import Graph
from kgen.ir.linear import Logits
from kgen.ir.sample import Sample
from kgen.ir.tensor import Space
from kgen.spec import ops
from kgen.spec.models import ModelSpec


def expand_text(spec: ModelSpec) -> str:
    """YAML of a spec with its dims, tensors (activations too) and graph. SpecError if it has errors."""
    graph = build_graph(spec)
    written = written_out(spec)
    data: dict[str, Any] = {
        "kgen": 1,
        "kind": "model",
        "name": written.name,
        "dims": dict(graph.dims),
        "runtime": {
            "batch": f"1..{graph.runtime.batch}",
            "context": f"1..{graph.runtime.context}",
            "kv_page": graph.runtime.kv_page,
            "rows": graph.runtime.rows,
            "workers": graph.runtime.workers,
            "worker": graph.runtime.worker,
            "pipelining": graph.runtime.pipelining,
            "attention": graph.runtime.attention,
        },
        "tensors": _weights(written) | _activations(graph),
        "graph": [_item(item, graph) for item in written.graph],
    }
    return emit(data)


def _weights(spec: ModelSpec) -> dict[str, Any]:
    weights: dict[str, Any] = {}
    for name, tensor in spec.tensors.items():
        if tensor.source is None:
            continue
        weight: dict[str, Any] = {"shape": [size.text for size in tensor.shape], "dtype": tensor.dtype}
        if tensor.repeat is not None:
            weight["repeat"] = tensor.repeat
        source = tensor.source
        weights[name] = weight | {"source": list(source) if len(source) > 1 else source[0]}
    return weights


def _activations(graph: Graph) -> dict[str, Any]:
    """The activations that a spec may declare: all but the buffer between sample and advance."""
    per_sequence = {op.out for op in graph.ops if isinstance(op, Logits)}
    sampled = {op.out for op in graph.ops if isinstance(op, Sample)}
    return {
        tensor.name: {
            "shape": [BATCH if tensor.name in per_sequence else ROWS, *tensor.shape[1:]],
            "dtype": str(tensor.dtype),
        }
        for tensor in graph.tensors
        if tensor.space is Space.ACTIVATION and tensor.name not in sampled
    }


def _item(item: ops.OpSpec | ops.RepeatSpec, graph: Graph) -> dict[str, Any]:
    if isinstance(item, ops.RepeatSpec):
        return {"repeat": item.repeat, "do": [_item(op, graph) for op in item.do]}
    data = item.model_dump(by_alias=True, exclude_none=True)
    if isinstance(item, ops.AttentionOp):
        data = _attention(data, graph)
    first = {"op": data.pop("op"), "in": data.pop("in")}
    out = data.pop("out")
    return first | data | {"out": out}


def _attention(data: dict[str, Any], graph: Graph) -> dict[str, Any]:
    """The operator with its sizes, which are dims of those names if left out, and its scale."""
    head = next(op.head for op in graph.ops if isinstance(op, Attention))  # all have the same
    return (
        {"heads": "heads", "kv_heads": "kv_heads", "head": "head"}
        | data
        | {"scale": data.get("scale", head**-0.5)}
    )
