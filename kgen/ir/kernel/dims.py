"""Sizes of a kernel: some compiled in, some decided at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Axis = str | int  # the name of a dim, or a number


class Range(NamedTuple):
    """first..last, both included; which value it is, is decided at run time."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}" if self.first != self.last else str(self.first)


Extent = int | Range
Dims = Mapping[str, Extent]


def extent(dims: Dims, axis: Axis) -> Extent:
    """What is known of an axis when the kernel is compiled."""
    return dims[axis] if isinstance(axis, str) else axis


def same(dims: Dims, a: Axis, b: Axis) -> bool:
    """Whether two axes have the same size whatever is decided at run time."""
    return a == b or (isinstance(size := extent(dims, a), int) and size == extent(dims, b))


def size(dims: Dims, sizes: Mapping[str, int], axis: Axis) -> int:
    """The size of an axis; `sizes` has the values of the dims that are ranges."""
    known = extent(dims, axis)
    return known if isinstance(known, int) else sizes[str(axis)]


def block(length: int, world: int, rank: int) -> tuple[int, int]:
    """[begin, end) of a rank's block of an axis that is split.

    Blocks of ceil(length / world) are dealt to one rank after the other, so the last ranks that get any get
    what is left, and those after them nothing: `pk::lcsc::deal_rows`.
    """
    each = -(-length // world)
    return min(length, rank * each), min(length, (rank + 1) * each)
