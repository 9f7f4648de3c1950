"""At which sizes a kernel's protocol is checked: the smallest, ragged ones, some blocks of every shard."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.ir.kernel.overlap import Transfer
from kgen.passes.kernel.stages import CALLS
from kgen.plan.kernel.instance import Shape
from kgen.plan.kernel.plan import CollectivePlan, DimRow, KernelPlan, ProductPlan
from kgen.plan.kernel.runtime import PIECE, Copies

_BLOCKS = 3  # of rows of a shard, so that a pair of tiles lacks one
_TILES = 2  # side by side, besides what a ragged size leaves
_DEPTH = 16  # of K nothing depends
_ROWS = 5  # of each rank in a collective
_MOST_RANKS = 4  # of larger worlds only one, with fewer blocks


def product_samples(plan: ProductPlan) -> Iterator[Shape]:
    """Shapes that differ in all that the tasks depend on; sizes of which they do not are cut down."""
    dims = {dim.name: dim for dim in plan.dims}
    for world, blocks in _worlds(plan):
        for m in _sizes(dims[plan.m.dim], plan.tile.m, world, blocks):
            yield Shape(m, _columns(dims[plan.n.dim], plan, world), _DEPTH, world)


def transfer_samples(plan: ProductPlan, shape: Shape) -> Iterator[tuple[Transfer, ...]]:
    """What moves the rows of each of a few calls.

    Where that goes by size, calls of both sorts follow each other, on as few ranks as there can be: a push
    comes to a buffer that copies have used, and copies to one that pushes have used.
    """
    push, copy = plan.transfer, Transfer.COPY_ENGINE
    yield (plan.transfer,) * CALLS
    if plan.copies is not Copies.BY_SIZE or shape.world == 1:
        return
    yield (copy,) * CALLS
    if shape.world == min(world for world in plan.worlds if world > 1):
        yield (copy, push, push, copy)
        yield (push, push, copy, push)


def collective_samples(plan: CollectivePlan) -> Iterator[Shape]:
    """The same for a collective, with rows of as few pieces as there can be."""
    dims = {dim.name: dim for dim in plan.dims}
    for world, _ in _worlds(plan):
        for m in _sizes(dims[plan.m.dim], 1, world, _ROWS):
            yield Shape(m, PIECE * (world if plan.n.split else 1), 0, world)


def _worlds(plan: KernelPlan) -> Iterator[tuple[int, int]]:
    """Worlds, and blocks of a shard in them."""
    few = [world for world in plan.worlds if world <= _MOST_RANKS]
    for world in dict.fromkeys([*few, plan.worlds[0], plan.worlds[-1]]):
        yield world, _BLOCKS if world <= _MOST_RANKS else 1


def _sizes(dim: DimRow, height: int, world: int, blocks: int) -> list[int]:
    """Numbers of rows: the smallest, less than a row for each rank, ragged, and whole blocks."""
    most = world * height * blocks

    def cut(size: int) -> int:  # by whole blocks
        return size if size <= most else most - (-size % height)

    wanted = [dim.lo, world - 1, most - height // 2 - 1, most]
    return sorted({cut(min(max(size, dim.lo), dim.hi)) for size in wanted})


def _columns(dim: DimRow, plan: ProductPlan, world: int) -> int:
    each = dim.hi // (world if plan.n.split else 1)
    return min(each, _TILES * plan.tile.n + each % plan.tile.n)
