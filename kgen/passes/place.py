"""Pass 7: which tasks wait in a worker's list and which in the queue, and whose list."""

from __future__ import annotations

import dataclasses

import numpy as np

from kgen.ir.graph import Graph
from kgen.ir.region import Axis, Tiles
from kgen.tgraph.tgraph import EMPTY, NONE, IntArray, Placement, TGraph


def place(graph: Graph, tgraph: TGraph) -> TGraph:
    """Give every ahead-of-time task a worker slot, and size the queue for all the others.

    The tasks of an operator go round robin. One that is split by columns streams weights: it starts where
    that keeps the bytes of the slots most equal. Others go on where the one before stopped. Needs linear
    order.
    """
    workers, tasks = graph.runtime.workers, tgraph.tasks
    by_op = np.argsort(tasks.op, kind="stable")
    bounds = np.searchsorted(tasks.op[by_op], np.arange(EMPTY, len(graph.ops) + 1))
    jit = np.zeros(len(tasks), dtype=np.bool_)
    slot = np.full(len(tasks), NONE, dtype=np.int64)
    load = np.zeros(workers, dtype=np.int64)  # bytes of weights
    following = 0
    for op, begin, end in zip((None, *graph.ops), bounds[:-1], bounds[1:], strict=True):
        part = by_op[begin:end]
        if op is not None and op.jit:
            jit[part] = True
            continue
        if op is not None and op.axis is Axis.COLUMNS:
            cost = op.cost(Tiles(tasks.begin[part], tasks.end[part], tasks.index[part]), graph)
            first = _lightest(load, cost)
            np.add.at(load, (first + np.arange(len(part))) % workers, cost)
        else:
            first, following = following, following + len(part)
        slot[part] = (first + np.arange(len(part))) % workers
    return dataclasses.replace(
        tgraph, placement=Placement(jit, slot, queue_capacity(int(np.count_nonzero(jit))))
    )


def _lightest(load: IntArray, cost: IntArray) -> int:
    """The slot to start at so that the sum of squares of the loads stays smallest; of equals the lowest."""
    workers = len(load)
    added = np.bincount(np.arange(len(cost)) % workers, weights=cost, minlength=workers)
    shifted = load[
        (np.arange(workers)[:, None] + np.arange(workers)) % workers
    ]  # [first slot, slot - first slot]
    return int(np.argmin(shifted @ added))


def queue_capacity(tasks: int) -> int:
    """A power of two that holds all JIT tasks of a step, which are all taken before the next step starts."""
    return 1 << max(tasks - 1, 0).bit_length()
