"""A kernel's spec with nothing left out, as YAML that gives the same graph."""

from __future__ import annotations

from typing import Any

from kgen.frontend.emit import emit
from kgen.frontend.kernel.build import build_kernel
from kgen.ir.kernel.dims import Extent
from kgen.ir.kernel.tensor import TensorType
from kgen.spec import kernel_ops as ops
from kgen.spec.kernel import KernelSpec


def expand_kernel(spec: KernelSpec) -> str:
    """YAML of a spec with all its tensors and all that has a default. SpecError if it has errors."""
    graph = build_kernel(spec)
    overlap = {key: value for key, value in spec.overlap.model_dump().items() if value is not None}
    data: dict[str, Any] = {
        "kgen": 1,
        "kind": "kernel",
        "name": spec.name,
        "world": _extent(graph.world if graph.world.first < graph.world.last else graph.world.first),
        "dims": {name: _extent(extent) for name, extent in graph.dims.items()},
        "tensors": {tensor.name: _tensor(tensor.type) for tensor in graph.tensors},
        "graph": [_item(op) for op in spec.graph],
        "outputs": list(graph.outputs),
        "deterministic": graph.deterministic,
        "overlap": overlap or "auto",
    }
    return emit({key: value for key, value in data.items() if value != {}})


def _extent(extent: Extent) -> int | str:
    return extent if isinstance(extent, int) else str(extent)


def _tensor(type_: TensorType) -> dict[str, Any]:
    data: dict[str, Any] = {"shape": list(type_.shape), "dtype": str(type_.dtype)}
    if type_.shard is not None:
        data["shard"] = {"axis": type_.shard}
    return data | ({"partial": True} if type_.partial else {})


def _item(op: ops.KernelOpSpec) -> dict[str, Any]:
    data = op.model_dump(by_alias=True, exclude_none=True)
    first = {"op": data.pop("op"), "in": data.pop("in")}
    out = data.pop("out")
    return first | data | {"out": out}
