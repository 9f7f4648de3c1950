"""The contents of a project's `model.json`: what packing weights, `kgen trace` and its own tests read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from kgen.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class ModelJson:
    """The values as JSON texts; tables are one row a line."""

    name: str
    digest: str
    runtime: str
    dims: str
    vocab: str
    weight_bytes: str
    tensors: tuple[str, ...]
    ops: tuple[str, ...]
    runs: tuple[str, ...]


def make_model_json(plan: Plan) -> ModelJson:
    """Every value of `model.json` as JSON text."""
    tensors: list[dict[str, Any]] = [
        {
            "name": tensor.name,
            "space": tensor.space.value,
            "dtype": tensor.dtype.value,
            "shape": tensor.shape,
            "stride": tensor.stride,
            "offset": tensor.offset,
            "sources": tensor.sources,
        }
        for tensor in plan.tensors
    ]
    ops: list[dict[str, Any]] = []
    for op in plan.ops:
        variant = plan.variants[op.variant]
        names = (plan.tensors[i].name for i in op.operands)
        ops.append(
            {
                "name": op.name,
                "kind": variant.kind,
                "layer": op.layer,
                "constants": dict(variant.constants),
                "operands": dict(zip(variant.operands, names, strict=True)),
            }
        )
    return ModelJson(
        name=json.dumps(plan.name),
        digest=json.dumps(plan.digest),
        runtime=json.dumps(asdict(plan.runtime)),
        dims=json.dumps(dict(plan.dims)),
        vocab=json.dumps(plan.vocab),
        weight_bytes=json.dumps(plan.weight_bytes),
        tensors=tuple(map(json.dumps, tensors)),
        ops=tuple(map(json.dumps, ops)),
        runs=tuple(json.dumps(asdict(run)) for run in plan.runs),
    )
