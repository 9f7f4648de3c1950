"""Pass 7: which tasks wait in a worker's list and which in the queue, and whose list."""

from __future__ import annotations

import dataclasses

import numpy as np

from kgen.ir.graph import Graph
from kgen.ir.region import Axis
from kgen.tgraph.tgraph import NONE, Placement, TGraph


def place(graph: Graph, tgraph: TGraph) -> TGraph:
    """Give every ahead-of-time task a worker slot, round robin, and size the queue for all the others.

    Each operator goes on where one like it stopped, so that over a step the slots get equal shares of
    the weights: operators split by columns, which stream them, take turns apart from all the others.
    Needs linear order.
    """
    workers = graph.runtime.workers
    ops = tgraph.tasks.op
    of_op = np.array([op.jit for op in graph.ops] + [False], dtype=np.bool_)  # the last one is for EMPTY = -1
    streams = np.array([op.axis is Axis.COLUMNS for op in graph.ops] + [False], dtype=np.bool_)
    jit = of_op[ops]
    slot = np.full(len(ops), NONE, dtype=np.int64)
    for group in (streams[ops] & ~jit, ~streams[ops] & ~jit):
        slot[group] = np.arange(int(np.count_nonzero(group))) % workers
    return dataclasses.replace(
        tgraph, placement=Placement(jit, slot, queue_capacity(int(np.count_nonzero(jit))))
    )


def queue_capacity(tasks: int) -> int:
    """A power of two that holds all JIT tasks of a step, which are all taken before the next step starts."""
    return 1 << max(tasks - 1, 0).bit_length()
