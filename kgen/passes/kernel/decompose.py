"""Pass 1 on kernels: operators become tasks of all ranks, at given sizes.

Calls repeat with the workspace's buffers in turns, so that the pass after this one finds what a call must
wait for before it writes to a buffer that the call before the last has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kgen.ir.kernel.all_gather import AllGather
from kgen.ir.kernel.all_reduce import AllReduce
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.matmul import Matmul
from kgen.ir.kernel.operator import KernelOperator
from kgen.ir.kernel.reduce_scatter import ReduceScatter
from kgen.ir.problem import Problem
from kgen.ir.region import Access, Box, Span, overlap, volume
from kgen.passes.errors import CompileError
from kgen.plan.kernel.instance import Instance, Kind, Shape, Stage, Task, order_of
from kgen.plan.kernel.runtime import Reduce
from kgen.plan.kernel.tiles import Shards, Tile, TileGrid, TileOrder, divide_up
from kgen.tgraph.tgraph import Tasks, TGraph

BUFFERS = 2  # of everything that peers write: a call and the next may overlap
CALLS = BUFFERS + 1  # so that each buffer that is used again is seen


def make_instance(graph: KernelGraph, shape: Shape, grid: TileGrid, *, calls: int = CALLS) -> Instance:
    """The tasks of a few calls. Raises CompileError if they do not write each element exactly once."""
    maker = _Maker(graph, shape, grid)
    stages = []
    for call in range(1, calls + 1):
        for op in graph.ops:
            stages += [stage for stage in _STAGES[type(op)](maker, op, call) if stage.tasks]
    for stage in stages:
        _check_alone(stage)
    _check_whole(maker, stages)
    return Instance(shape, grid, maker.weights, maker.gather, maker.reduce, tuple(stages))


def task_graph(instance: Instance) -> TGraph:
    """The tasks as a graph: rows of the task as its piece, and its number within the stage."""
    counts = [len(stage.tasks) for stage in instance.stages]
    begin = np.array([task.row for task in instance.tasks], dtype=np.int64)
    return TGraph(
        op_names=tuple(stage.name for stage in instance.stages),
        tasks=Tasks(
            op=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
            begin=begin,
            end=begin + np.array([task.rows for task in instance.tasks], dtype=np.int64),
            index=np.concatenate([np.arange(count, dtype=np.int64) for count in counts]),
            origin=np.arange(sum(counts), dtype=np.int64),
        ),
    )


class _Maker:
    def __init__(self, graph: KernelGraph, shape: Shape, grid: TileGrid) -> None:
        self.shape, self.grid = shape, grid
        self.shards = Shards(shape.m, shape.world)
        product = graph.matmul
        self.weights = 1 if product is None or product.up is None else 2
        self.gather = any(isinstance(op, AllGather) for op in graph.ops)
        self.reduce = _REDUCES.get(type(graph.ops[-1]), Reduce.NONE)

    def order(self, rank: int) -> TileOrder:
        return order_of(self.shape, self.grid, self.weights, rank, self.reduce)

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


def _push_rows(maker: _Maker, op: KernelOperator, call: int) -> Iterator[Stage]:
    """A block of rows at a time, to each of the other ranks."""
    world, height, tasks = maker.shape.world, maker.grid.tile_rows, []
    for rank in range(world):
        begin, count = maker.shards.begin(rank), maker.shards.count(rank)
        for block in range(divide_up(count, height)):
            row, rows = begin + block * height, min(height, count - block * height)
            for peer in (p for p in range(world) if p != rank):
                part = (row, rows, 0, maker.shape.k)
                tasks.append(Task(Kind.PUSH_ROWS, call, rank, peer, *part, rank, block, 0))
    write = Access(_turn("gathered", call), _box(tasks, lambda t: (t.peer, t.row, t.rows, 0, t.columns)))
    yield Stage(op.name, Kind.PUSH_ROWS, call, tuple(tasks), (), write)


def _multiply(maker: _Maker, op: KernelOperator, call: int) -> Iterator[Stage]:
    """A tile at a time; own rows come from the caller's tensor, the others' from the workspace."""
    ranks = range(maker.shape.world)
    tasks = [maker.task(Kind.MULTIPLY, call, r, r, tile) for r in ranks for tile in maker.tiles(r)]
    reads = []
    if maker.gather and maker.shape.world > 1:
        box = _box(tasks, lambda t: (t.rank, t.row, t.rows if t.owner != t.rank else 0, 0, maker.shape.k))
        reads.append(Access(_turn("gathered", call), box))
    where = f"{op.out}.{call}" if maker.reduce is Reduce.NONE else f"sums.{call}"
    yield Stage(op.name, Kind.MULTIPLY, call, tuple(tasks), tuple(reads), Access(where, _box(tasks, _tile)))


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
    write = Access(pushed, _box(pushes, lambda t: (t.peer, t.row, t.rows, t.column, t.columns)))
    yield Stage(op.name, Kind.PUSH_SUM, call, tuple(pushes), (Access(own, _box(pushes, _tile)),), write)
    uses = [Task(Kind.USE, call, rank, rank, 0, shape.m, 0, shape.n, rank, 0, 0) for rank in ranks]
    reads = [Access(own, _box(uses, _tile))]
    if shape.world > 1:
        reads.append(Access(pushed, _box(uses, _tile)))
    used = Access(f"used.{call}", _box(uses, lambda t: (t.rank, 0, 1, 0, 1)))
    yield Stage(op.name, Kind.USE, call, tuple(uses), tuple(reads), used)


def _sum(maker: _Maker, op: KernelOperator, call: int, out: str) -> Iterator[Stage]:
    ranks, others = range(maker.shape.world), maker.shape.world - 1
    tiles = [(rank, tile) for rank in ranks for tile in maker.tiles(rank)]
    pushes = [maker.task(Kind.PUSH_TILE, call, r, t.owner, t) for r, t in tiles if t.owner != r]
    sums = [maker.task(Kind.REDUCE, call, r, r, t) for r, t in tiles if t.owner == r]

    def place(task: Task) -> tuple[int, int, int, int, int]:
        other = task.rank if task.rank < task.owner else task.rank - 1
        return (task.owner, task.slot * others + other, 1, 0, 1)

    products = Access(f"sums.{call}", _box(pushes, _tile))
    write = Access(_turn("partials", call), _box(pushes, place))
    yield Stage(op.name, Kind.PUSH_TILE, call, tuple(pushes), (products,), write)
    reads = [Access(f"sums.{call}", _box(sums, _tile))]
    if others:
        places = _box(sums, lambda t: (t.rank, t.slot * others, others, 0, 1))
        reads.append(Access(_turn("partials", call), places))
    yield Stage(op.name, Kind.REDUCE, call, tuple(sums), tuple(reads), Access(out, _box(sums, _tile)))


_STAGES: dict[type[KernelOperator], Callable[[_Maker, KernelOperator, int], Iterator[Stage]]] = {
    AllGather: _push_rows,
    Matmul: _multiply,
    ReduceScatter: _reduce_scatter,
    AllReduce: _all_reduce,
}
_REDUCES: dict[type[KernelOperator], Reduce] = {ReduceScatter: Reduce.SCATTER, AllReduce: Reduce.ALL}


def _turn(buffer: str, call: int) -> str:
    return f"{buffer}.{call % BUFFERS}"


def _tile(task: Task) -> tuple[int, int, int, int, int]:
    return (task.rank, task.row, task.rows, task.column, task.columns)


def _box(tasks: list[Task], region: Callable[[Task], tuple[int, int, int, int, int]]) -> Box:
    """(rank, row, rows, column, columns) of each task as a box."""
    rank, row, rows, column, columns = np.array([region(t) for t in tasks], dtype=np.int64).reshape(-1, 5).T
    return Box(Span(rank, rank + 1), Span(row, row + rows), Span(column, column + columns))


def _check_alone(stage: Stage) -> None:
    """No two tasks of a stage write the same element."""
    box, count = stage.write.box, len(stage.tasks)
    clash = np.argwhere(np.triu(overlap(box, box, (count, count)), 1))
    if len(clash):
        first, second = (str(stage.tasks[i]) for i in clash[0])
        text = f"{first} and {second} write the same elements of `{stage.write.tensor}`"
        raise _error(stage.operator, text)


def _check_whole(maker: _Maker, stages: list[Stage]) -> None:
    """The product is computed as a whole on every rank, its sum once, and that is pushed to every peer."""
    world, whole = maker.shape.world, maker.shape.m * maker.shape.n
    wanted = {Kind.MULTIPLY: whole * world, Kind.REDUCE: whole, Kind.PUSH_SUM: whole * (world - 1)}
    for stage in stages:
        written = int(np.sum(volume(stage.write.box)))
        if written != wanted.get(stage.kind, written):
            text = f"{stage.name} writes {written} elements of {wanted[stage.kind]}"
            raise _error(stage.operator, text)


def _error(operator: str, text: str) -> CompileError:
    return CompileError("decompose", [Problem(f"{operator}: {text}", operator=operator)])
