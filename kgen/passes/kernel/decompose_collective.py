"""Pass 1 on collectives by themselves: the tasks of all ranks, and of the caller before and after a call.

Ranks move data between the memories of the callers, which are the same in every call; the network between
memories of the library, to and from which each rank copies.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.region import Access, volume
from kgen.passes.kernel.stages import CALLS, Region, box_of, check_alone, decompose_error, own_part, turn
from kgen.plan.kernel.instance import CollectiveInstance, Kind, Shape, Stage, Task
from kgen.plan.kernel.runtime import PIECE, Collective, collective_of, in_network
from kgen.plan.kernel.tiles import Shards, divide_up

_INPUT, _OUTPUT, _PLACES = "input", "output", "places"
_NETWORK = {_INPUT: "network.input", _OUTPUT: "network.output"}


def make_collective(
    graph: KernelGraph, shape: Shape, *, block: int = 0, calls: int = CALLS
) -> CollectiveInstance:
    """The tasks of a few calls. Raises CompileError if they do not write each element exactly once.

    shape: of the whole tensor. block: of an all-reduce in one shot, how many pieces a block of threads has;
    0: ranks move parts of the tensor.
    """
    maker = _Maker(graph, shape)
    stages = []
    for call in range(1, calls + 1):
        stages += [maker.filled(call)]
        if maker.in_network:
            stages += [maker.copied_in(call), maker.moved(call), maker.copied_out(call)]
        else:
            stages += maker.one_shot(call, block) if block else [maker.moved(call)]
        stages += [maker.used(call)]
    stages = [stage for stage in stages if stage.tasks]
    for stage in stages:
        check_alone(stage)
        _check_whole(stage, maker)
    return CollectiveInstance(maker.shape, tuple(stages), maker.collective, block > 0, maker.in_network)


class _Maker:
    def __init__(self, graph: KernelGraph, shape: Shape) -> None:
        (op,) = graph.ops
        self.name, self.collective, self.in_network = op.name, collective_of(graph), in_network(graph)
        if self.collective is Collective.ALL_REDUCE:
            shape = Shape(shape.m * shape.n // PIECE, PIECE, 0, shape.world)
        self.shape, self.shards, self.ranks = shape, Shards(shape.m, shape.world), range(shape.world)
        self.shard_of = {_INPUT: graph.types[op.reads["x"]].shard, _OUTPUT: graph.types[op.out].shard}

    def part(self, tensor: str, rank: int) -> tuple[int, int, int, int]:
        """(row, rows, column, columns) that a rank has."""
        shape, shard = self.shape, self.shard_of[tensor]
        if shard == 0:
            return self.shards.begin(rank), self.shards.count(rank), 0, shape.n
        if shard == 1:
            each = shape.n // shape.world
            return 0, shape.m, rank * each, each
        return 0, shape.m, 0, shape.n

    def filled(self, call: int) -> Stage:
        """The caller writes the inputs, which for the call before may have been read by anybody."""
        fills = [Task(Kind.FILL, call, r, r, *self.part(_INPUT, r), r, 0, 0) for r in self.ranks]
        return self._stage(Kind.FILL, fills, [], Access(_INPUT, box_of(fills, own_part)))

    def used(self, call: int) -> Stage:
        """And reads the outputs, before the next call begins."""
        uses = [Task(Kind.USE, call, r, r, *self.part(_OUTPUT, r), r, 0, 0) for r in self.ranks]
        used = Access(f"used.{call}", box_of(uses, lambda t: (t.rank, 0, 1, 0, 1)))
        return self._stage(Kind.USE, uses, [Access(_OUTPUT, box_of(uses, own_part))], used)

    def copied_in(self, call: int) -> Stage:
        """Each rank copies its input, over that of the call before."""
        return self._copied(Kind.COPY_IN, call, _INPUT, _NETWORK[_INPUT])

    def copied_out(self, call: int) -> Stage:
        """And its output to the caller's."""
        return self._copied(Kind.COPY_OUT, call, _NETWORK[_OUTPUT], _OUTPUT)

    def _copied(self, kind: Kind, call: int, source: str, to: str) -> Stage:
        tasks = [Task(kind, call, r, r, *self.part(_INPUT, r), r, 0, 0) for r in self.ranks]
        box = box_of(tasks, own_part)
        return self._stage(kind, tasks, [Access(source, box)], Access(to, box))

    def moved(self, call: int) -> Stage:
        """Each rank moves what it has to whoever gets it; sums are of its share of what everybody has."""
        moves = [task for task in self._moves(call) if task.rows]
        box = box_of(moves, own_part)
        everybody = box_of(moves, lambda t: (0, *own_part(t)[1:]), len(self.ranks))
        to_peers = box_of(moves, lambda t: (t.peer, *own_part(t)[1:]))
        read = everybody if self.collective.sums else box
        written = everybody if self.collective is Collective.ALL_REDUCE else to_peers
        source, to = (_NETWORK[t] if self.in_network else t for t in (_INPUT, _OUTPUT))
        return self._stage(Kind.MOVE, moves, [Access(source, read)], Access(to, written))

    def one_shot(self, call: int, block: int) -> Iterator[Stage]:
        """Each rank sends each block of its summand to all, and adds up what came to it."""
        blocks = divide_up(self.shape.m, block)

        def task(kind: Kind, rank: int, peer: int, b: int) -> Task:
            part = (b * block, min(block, self.shape.m - b * block), 0, self.shape.n)
            return Task(kind, call, rank, peer, *part, rank, b, 0)

        def place(t: Task) -> Region:
            return (t.peer, t.block * len(self.ranks) + t.rank, 1, 0, 1)

        pairs = [(r, p) for r in self.ranks for p in self.ranks if r != p]
        pushes = [task(Kind.PUSH_SUMMAND, r, p, b) for r, p in pairs for b in range(blocks)]
        adds = [task(Kind.ADD, r, r, b) for r in self.ranks for b in range(blocks)]
        here = Access(_INPUT, box_of(pushes, own_part))
        yield self._stage(
            Kind.PUSH_SUMMAND, pushes, [here], Access(turn(_PLACES, call), box_of(pushes, place))
        )
        reads = [Access(_INPUT, box_of(adds, own_part))]
        if pairs:
            places = box_of(adds, lambda t: (t.rank, t.block * len(self.ranks), len(self.ranks), 0, 1))
            reads.append(Access(turn(_PLACES, call), places))
        yield self._stage(Kind.ADD, adds, reads, Access(_OUTPUT, box_of(adds, own_part)))

    def _moves(self, call: int) -> Iterator[Task]:
        for rank in self.ranks:
            if self.collective.sums:
                part = (self.shards.begin(rank), self.shards.count(rank), 0, self.shape.n)
                yield Task(Kind.MOVE, call, rank, rank, *part, rank, 0, 0)
                continue
            # What the one has and the other gets, of which one has all rows, and one all columns.
            for peer in self.ranks:
                has, gets = self.part(_INPUT, rank), self.part(_OUTPUT, peer)
                rows, columns = min(has[:2], gets[:2], key=_length), min(has[2:], gets[2:], key=_length)
                yield Task(Kind.MOVE, call, rank, peer, *rows, *columns, rank, 0, 0)

    def _stage(self, kind: Kind, tasks: list[Task], reads: list[Access], write: Access) -> Stage:
        call = tasks[0].call if tasks else 0
        return Stage(self.name, kind, call, tuple(tasks), tuple(reads), write)


def _length(part: tuple[int, ...]) -> int:
    return part[1]


def _check_whole(stage: Stage, maker: _Maker) -> None:
    """Every rank's output is written as a whole, also where the network sends it."""
    if stage.write.tensor not in (_OUTPUT, _NETWORK[_OUTPUT]):
        return
    wanted = sum(rows * columns for r in maker.ranks for _, rows, _, columns in [maker.part(_OUTPUT, r)])
    written = int(np.sum(volume(stage.write.box)))
    if written != wanted:
        raise decompose_error(stage.operator, f"{stage.name} writes {written} elements of {wanted}")
