"""The dims and the declared tensors of a kernel's spec."""

from __future__ import annotations

from kgen.diagnostics import Diagnostic, nearest, one_of
from kgen.ir.kernel.dims import Extent, Range
from kgen.ir.kernel.tensor import TensorType
from kgen.ir.tensor import DType
from kgen.spec import fields
from kgen.spec.document import At
from kgen.spec.kernel import KernelSpec, KernelTensorSpec


def extent_of(written: int | fields.Range) -> Extent:
    """A size as the graph has it."""
    return Range(written.first, written.last) if isinstance(written, fields.Range) else written


class Tensors:
    """Dims, and the types of declared tensors; None is the type of one that has an error."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.dims = {name: extent_of(written) for name, written in spec.dims.items()}
        self.known_dims = [*spec.dims, *sorted(spec.gaps.dims)]
        self.used_dims: set[str] = set()
        self.diagnostics: list[Diagnostic] = []
        self.declared = {name: self._type(name, tensor) for name, tensor in spec.tensors.items()}

    def error(self, at: At, message: str, expected: str = "", hint: str = "") -> None:
        """Record an error at the value of a path."""
        self.diagnostics.append(Diagnostic(self.spec.span(*at), message, expected, hint))

    def unused_dims(self) -> list[Diagnostic]:
        """Dims that no shape names."""
        return [
            Diagnostic(self.spec.key_span(("dims", name)), f"dim '{name}' is never used")
            for name in self.spec.dims
            if name not in self.used_dims | self.spec.gaps.names
        ]

    def _type(self, name: str, tensor: KernelTensorSpec) -> TensorType | None:
        at: At = ("tensors", name)
        right = True
        for i, axis in enumerate(tensor.shape):
            if isinstance(axis, int) or axis in self.dims:
                self.used_dims.add(str(axis))
                continue
            right = False
            if axis not in self.known_dims:
                hint = nearest(axis, self.known_dims)
                self.used_dims.add(hint)
                self.error((*at, "shape", i), f"unknown dim '{axis}'", one_of(self.known_dims), hint)
        shard = tensor.shard.axis if tensor.shard else None
        if shard is not None and shard >= len(tensor.shape):
            self.error((*at, "shard", "axis"), f"'{name}' has one axis, so it has no axis {shard}", "axis: 0")
            right = False
        if shard is not None and tensor.partial:
            message = f"'{name}' cannot be sharded and partial: a rank has a block of it, or a summand"
            self.error((*at, "partial"), message, "shard or partial, not both")
            right = False
        return TensorType(tuple(tensor.shape), DType(tensor.dtype), shard, tensor.partial) if right else None
