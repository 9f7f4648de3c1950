"""What a size must be a multiple of, besides lying in its range: at compile time or at the call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kgen.ir.kernel.dims import Axis, Extent
from kgen.ir.kernel.tensor import KernelTensor

ROW_BYTES = 16  # TMA and vector accesses want rows to start at multiples of this many bytes


@dataclass(frozen=True, slots=True)
class Constraint:
    """The rows of `tensor`, a matrix, begin at multiples of ROW_BYTES: `axis` is a multiple of `multiple`.

    split: the ranks cut the rows into blocks of the same size, of which that must hold. Blocks of rows, in
    contrast, may be of any size: `block` deals them.
    """

    axis: Axis
    split: bool
    multiple: int
    tensor: str

    def unit(self, world: int) -> int:
        """What the whole axis must be a multiple of."""
        return self.multiple * (world if self.split else 1)

    def can_hold(self, extent: Extent, world: int) -> bool:
        """Whether some value of the axis is right."""
        unit = self.unit(world)
        if isinstance(extent, int):
            return extent % unit == 0
        return extent.last // unit * unit >= extent.first

    def problem(self, value: int, world: int) -> str:
        """What is wrong with a size, as a sentence; empty when it is right."""
        unit = self.unit(world)
        if value % unit == 0:
            return ""
        if self.split and value % world:
            return f"{self.axis} is {value}, which {world} ranks cannot divide"
        each = value // world if self.split else value
        row = f"a row of '{self.tensor}' has {each} elements"
        return f"{self.axis} is {value}, but {row}, which is not a multiple of {self.multiple}"


def constraints(tensors: Iterable[KernelTensor]) -> tuple[Constraint, ...]:
    """The constraints of all tensors, one for each axis and way of splitting it."""
    found: dict[tuple[Axis, bool], Constraint] = {}
    for tensor in tensors:
        if len(tensor.type.shape) < 2:
            continue
        axis, split = tensor.type.shape[1], tensor.type.shard == 1
        multiple = ROW_BYTES // tensor.type.dtype.itemsize
        before = found.get((axis, split))
        if before is None or before.multiple < multiple:
            found[axis, split] = Constraint(axis, split, multiple, tensor.name)
    return tuple(found.values())
