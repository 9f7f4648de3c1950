"""Pass 1 on kernels with a product: operators become tasks of all ranks, at given sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import product

import numpy as np

from kgen.ir.kernel.all_gather import AllGather
from kgen.ir.kernel.all_reduce import AllReduce
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.matmul import Matmul
from kgen.ir.kernel.operator import KernelOperator
from kgen.ir.kernel.reduce_scatter import ReduceScatter
from kgen.ir.region import Access, volume
from kgen.passes.kernel.stages import CALLS, box_of, check_alone, decompose_error, own_part, turn
from kgen.plan.kernel.instance import Kind, ProductInstance, Shape, Stage, Task, gathered_in, order_of
from kgen.plan.kernel.runtime import Reduce, kept_rows
from kgen.plan.kernel.tiles import Shards, Tile, TileGrid, TileOrder, divide_up


def make_instance(
    graph: KernelGraph, shape: Shape, grid: TileGrid, *, calls: int = CALLS, copied: Collection[int] = ()
) -> ProductInstance:
    """The tasks of a few calls. Raises CompileError if they do not write each element exactly once.

    copied: calls whose rows the copy engine gathers.
    """
    maker = _Maker(graph, shape, grid, frozenset(copied))
    stages = []
    for call in range(1, calls + 1):
        for op in graph.ops:
            stages += [stage for stage in _STAGES[type(op)](maker, op, call) if stage.tasks]
    for stage in stages:
        check_alone(stage)
    _check_whole(maker, stages)
    return ProductInstance(
        shape, tuple(stages), grid, maker.weights, maker.gather, maker.reduce, maker.copied
    )


class _Maker:
    def __init__(self, graph: KernelGraph, shape: Shape, grid: TileGrid, copied: frozenset[int]) -> None:
        self.shape, self.grid, self.copied = shape, grid, copied
        self.shards = Shards(shape.m, shape.world)
        matmul = graph.matmul
        self.weights = 1 if matmul is None or matmul.up is None else 2
        self.gather = any(isinstance(op, AllGather) for op in graph.ops)
        self.keep_rows = kept_rows(graph) is not None
        self.reduce = _REDUCES.get(type(graph.ops[-1]), Reduce.NONE)

    def order(self, rank: int) -> TileOrder:
        return order_of(self.shape, self.grid, self.weights, rank, self.reduce)

    def gathered(self, call: int) -> str:
        return f"gathered.{gathered_in(call, self.copied)}"

    def tiles(self, rank: int) -> Iterator[Tile]:
        order = self.order(rank)
        for place in range(order.count()):
            for member in range(self.grid.members):
                tile = order.at(place, member)
                if tile.rows:
                    yield tile

    def task(self, kind: Kind, call: int, rank: int, peer: int, tile: Tile) -> Task:
        column = tile.column // self.weights
        columns = min(self.grid.tile_columns // self.weights, self.shape.n - column)
        part = (tile.row, tile.rows, column, columns)
        return Task(kind, call, rank, peer, *part, tile.owner, tile.block, tile.slot)


def _gather_rows(maker: _Maker, op: KernelOperator, call: int) -> Iterator[Stage]:
    """A block of rows at a time, to each of the other ranks; also of those that are copied together."""
    kind = Kind.COPY_ROWS if call in maker.copied else Kind.PUSH_ROWS
    world, height, tasks = maker.shape.world, maker.grid.tile_rows, []
    for rank in range(world):
        begin, count = maker.shards.begin(rank), maker.shards.count(rank)
        for block in range(divide_up(count, height)):
            row, rows = begin + block * height, min(height, count - block * height)
            for peer in (p for p in range(world) if p != rank):
                part = (row, rows, 0, maker.shape.k)
                tasks.append(Task(kind, call, rank, peer, *part, rank, block, 0))
    write = Access(maker.gathered(call), box_of(tasks, lambda t: (t.peer, t.row, t.rows, 0, t.columns)))
    yield Stage(op.name, kind, call, tuple(tasks), (), write)
    if maker.keep_rows:
        yield _keep_rows(maker, op, call)


def _keep_rows(maker: _Maker, op: KernelOperator, call: int) -> Stage:
    """All rows on every rank, by the blocks that were sent; own rows come from the caller's tensor."""
    height, tasks = maker.grid.tile_rows, []
    ranks = range(maker.shape.world)
    for rank, owner in product(ranks, ranks):
        begin, count = maker.shards.begin(owner), maker.shards.count(owner)
        for block in range(divide_up(count, height)):
            row, rows = begin + block * height, min(height, count - block * height)
            tasks.append(Task(Kind.KEEP_ROWS, call, rank, rank, row, rows, 0, maker.shape.k, owner, block, 0))
    write = Access(f"{op.out}.{call}", box_of(tasks, own_part))
    return Stage(
        op.name, Kind.KEEP_ROWS, call, tuple(tasks), tuple(_reads_gathered(maker, tasks, call)), write
    )


def _reads_gathered(maker: _Maker, tasks: list[Task], call: int) -> Iterator[Access]:
    """What tasks read of rows that are not their rank's own."""
    if maker.gather and maker.shape.world > 1:
        box = box_of(tasks, lambda t: (t.rank, t.row, t.rows if t.owner != t.rank else 0, 0, maker.shape.k))
        yield Access(maker.gathered(call), box)


def _multiply(maker: _Maker, op: KernelOperator, call: int) -> Iterator[Stage]:
    """A tile at a time; own rows come from the caller's tensor, the others' from the workspace."""
    ranks = range(maker.shape.world)
    tasks = [maker.task(Kind.MULTIPLY, call, r, r, tile) for r in ranks for tile in maker.tiles(r)]
    reads = list(_reads_gathered(maker, tasks, call))
    where = f"{op.out}.{call}" if maker.reduce is Reduce.NONE else f"sums.{call}"
    yield Stage(
        op.name, Kind.MULTIPLY, call, tuple(tasks), tuple(reads), Access(where, box_of(tasks, own_part))
    )


def _reduce_scatter(maker: _Maker, op: KernelOperator, call: int) -> Iterator[Stage]:
    """Tiles of others are pushed to their owner, who adds them up into an output that is new in each call."""
    yield from _sum(maker, op, call, f"{op.out}.{call}")


def _all_reduce(maker: _Maker, op: KernelOperator, call: int) -> Iterator[Stage]:
    """The same, and the owner pushes the sum to all, into an output that is the same in each call."""
    own, pushed = f"{op.out}.own", op.out  # a rank's own sums, and those of its peers
    yield from _sum(maker, op, call, own)
    ranks, shape = range(maker.shape.world), maker.shape
    pushes = [
        maker.task(Kind.PUSH_SUM, call, rank, peer, tile)
        for rank in ranks
        for tile in maker.tiles(rank)
        for peer in ranks
        if tile.owner == rank != peer
    ]
    write = Access(pushed, box_of(pushes, lambda t: (t.peer, t.row, t.rows, t.column, t.columns)))
    yield Stage(op.name, Kind.PUSH_SUM, call, tuple(pushes), (Access(own, box_of(pushes, own_part)),), write)
    uses = [Task(Kind.USE, call, rank, rank, 0, shape.m, 0, shape.n, rank, 0, 0) for rank in ranks]
    reads = [Access(own, box_of(uses, own_part))]
    if shape.world > 1:
        reads.append(Access(pushed, box_of(uses, own_part)))
    used = Access(f"used.{call}", box_of(uses, lambda t: (t.rank, 0, 1, 0, 1)))
    yield Stage(op.name, Kind.USE, call, tuple(uses), tuple(reads), used)


def _sum(maker: _Maker, op: KernelOperator, call: int, out: str) -> Iterator[Stage]:
    ranks, others = range(maker.shape.world), maker.shape.world - 1
    tiles = [(rank, tile) for rank in ranks for tile in maker.tiles(rank)]
    pushes = [maker.task(Kind.PUSH_TILE, call, r, t.owner, t) for r, t in tiles if t.owner != r]
    sums = [maker.task(Kind.REDUCE, call, r, r, t) for r, t in tiles if t.owner == r]

    def place(task: Task) -> tuple[int, int, int, int, int]:
        other = task.rank if task.rank < task.owner else task.rank - 1
        return (task.owner, task.slot * others + other, 1, 0, 1)

    products = Access(f"sums.{call}", box_of(pushes, own_part))
    write = Access(turn("partials", call), box_of(pushes, place))
    yield Stage(op.name, Kind.PUSH_TILE, call, tuple(pushes), (products,), write)
    reads = [Access(f"sums.{call}", box_of(sums, own_part))]
    if others:
        places = box_of(sums, lambda t: (t.rank, t.slot * others, others, 0, 1))
        reads.append(Access(turn("partials", call), places))
    yield Stage(op.name, Kind.REDUCE, call, tuple(sums), tuple(reads), Access(out, box_of(sums, own_part)))


_STAGES: dict[type[KernelOperator], Callable[[_Maker, KernelOperator, int], Iterator[Stage]]] = {
    AllGather: _gather_rows,
    Matmul: _multiply,
    ReduceScatter: _reduce_scatter,
    AllReduce: _all_reduce,
}
_REDUCES: dict[type[KernelOperator], Reduce] = {ReduceScatter: Reduce.SCATTER, AllReduce: Reduce.ALL}


def _check_whole(maker: _Maker, stages: list[Stage]) -> None:
    """The product is computed as a whole on every rank, its sum once, and that is pushed to every peer."""
    world, whole = maker.shape.world, maker.shape.m * maker.shape.n
    wanted = {Kind.MULTIPLY: whole * world, Kind.REDUCE: whole, Kind.PUSH_SUM: whole * (world - 1)}
    wanted[Kind.KEEP_ROWS] = maker.shape.m * maker.shape.k * world
    for stage in stages:
        written = int(np.sum(volume(stage.write.box)))
        if written != wanted.get(stage.kind, written):
            text = f"{stage.name} writes {written} elements of {wanted[stage.kind]}"
            raise decompose_error(stage.operator, text)
