"""What of reading a spec depends on its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from kgen.diagnostics import nearest
from kgen.spec import kernel, models, ops
from kgen.spec.document import At
from kgen.spec.kernel_ops import KERNEL_OPERATORS
from kgen.spec.placed import KINDS, PlacedSpec

Spec = TypeVar("Spec", bound=PlacedSpec)


@dataclass(frozen=True)
class Language(Generic[Spec]):
    """The models of a kind of spec, and values that stand in for sections that are wrong.

    sections: the models of mappings by the section that they are in; nested: by their key further inside.
    block: the model of items of the graph that are no operators.
    """

    spec: type[Spec]
    operators: Mapping[str, type[ops.Node]]
    sections: Mapping[str, type[BaseModel]]
    nested: Mapping[str, type[BaseModel]]
    stand_ins: Mapping[str, Any]
    block: type[BaseModel] | None = field(default=None)

    def mapping_at(self, path: At, data: Any) -> type[BaseModel]:
        """The model of the mapping `data` at a path."""
        if len(path) > 2 and path[-1] in self.nested:
            return self.nested[str(path[-1])]
        if path and path[0] in self.sections:
            return self.sections[str(path[0])]
        if path and path[0] == "graph":
            return self.operators.get(str(data.get("op")), self.block or ops.Node)
        return self.spec


MODEL = Language(
    models.ModelSpec,
    ops.OPERATORS,
    {"runtime": models.RuntimeSpec, "from": models.FromSpec, "tensors": models.TensorSpec},
    {"rope": ops.RopeSpec, "scaling": ops.RopeScaling},
    {
        "kgen": 1,
        "kind": "model",
        "name": "unnamed",
        "runtime": {"batch": "1..1", "context": "1..1", "kv_page": 8},
    },
    ops.RepeatSpec,
)
KERNEL = Language(
    kernel.KernelSpec,
    KERNEL_OPERATORS,
    {"overlap": kernel.OverlapSpec, "tensors": kernel.KernelTensorSpec},
    {"shard": kernel.ShardSpec},
    {
        "kgen": 1,
        "kind": "kernel",
        "name": "unnamed",
        "world": 1,
        "outputs": ["unnamed"],
        "deterministic": True,
        "overlap": "auto",
    },
)


def is_kernel(data: Mapping[str, Any]) -> bool:
    """Whether a spec means to be a kernel: it says so, nearly says so, or has what only kernels have."""
    kind = data.get("kind")
    meant = nearest(kind, KINDS) if isinstance(kind, str) else ""
    return meant == "kernel" if meant else "world" in data and "runtime" not in data
