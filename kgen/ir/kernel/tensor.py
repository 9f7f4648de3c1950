"""Tensors of a kernel graph: what all ranks together hold, and what of it one rank does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from kgen.ir.kernel.dims import Axis, Dims, block, same, size
from kgen.ir.tensor import DType


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape, dtype, and how the ranks hold it.

    shard: the axis that is cut into one block for each rank; `shape` is that of all blocks together.
    partial: every rank holds a summand of this shape, and the sum is what is meant.
    Neither: every rank has a tensor of this shape, its own or the same everywhere.
    """

    shape: tuple[Axis, ...]
    dtype: DType
    shard: int | None = None
    partial: bool = False

    def __str__(self) -> str:
        shape = ", ".join(str(axis) for axis in self.shape)
        return f"{self.dtype} [{shape}]{self.placement}"

    @property
    def placement(self) -> str:
        """How ranks hold it, to follow the shape in a sentence; empty when there is nothing to say."""
        if self.shard is not None:
            return f" sharded on axis {self.shard}"
        return " partial" if self.partial else ""

    def same_shape(self, other: TensorType, dims: Dims) -> bool:
        """Whether both have the same shape whatever is decided at run time."""
        return len(self.shape) == len(other.shape) and all(
            same(dims, a, b) for a, b in zip(self.shape, other.shape, strict=True)
        )

    def agrees(self, other: TensorType, dims: Dims) -> bool:
        """Whether a tensor of the one type is a tensor of the other."""
        mine, others = (self.dtype, self.shard, self.partial), (other.dtype, other.shard, other.partial)
        return mine == others and self.same_shape(other, dims)

    def local_symbols(self) -> tuple[Axis, ...]:
        """The shape of one rank's part, for a reader: `M / world`."""
        return tuple(f"{axis} / world" if i == self.shard else axis for i, axis in enumerate(self.shape))

    def local_shape(self, dims: Dims, sizes: Mapping[str, int], world: int, rank: int = 0) -> tuple[int, ...]:
        """The shape of one rank's part; `sizes` has the values of the dims that are ranges."""
        full = [size(dims, sizes, axis) for axis in self.shape]
        if self.shard is not None:
            begin, end = block(full[self.shard], world, rank)
            full[self.shard] = end - begin
        return tuple(full)

    def local_bytes(self, dims: Dims, sizes: Mapping[str, int], world: int) -> int:
        """Bytes of the largest part that a rank has."""
        return prod(self.local_shape(dims, sizes, world)) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """A named tensor of a kernel graph."""

    name: str
    type: TensorType

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"
