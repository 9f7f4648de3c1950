"""The memory of all ranks of a collective by itself, in which the interpreter runs its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kgen.ir.kernel.arithmetic import Ranks
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.machine import Array
from kgen.plan.kernel.flags import FREE_AFTER
from kgen.plan.kernel.instance import CollectiveInstance, Kind, Task
from kgen.plan.kernel.runtime import Collective


class CollectiveMachine:
    """Each rank has matrices of the whole shape, of which its part is used; the rest stays poisoned.

    Inputs and outputs are those of the caller, the same in every call; `sent` and `received` those of the
    library, where the network adds.
    """

    def __init__(
        self, graph: KernelGraph, instance: CollectiveInstance, calls: Sequence[Mapping[str, Ranks]]
    ) -> None:
        (op,) = graph.ops
        self.x, self.instance = op.reads["x"], instance
        self.calls, self.shape = calls, instance.shape
        self.inputs, self.results = self._matrices(), self._matrices()
        self.sent, self.received = self.inputs, self.results
        if instance.in_network:
            self.sent, self.received = self._matrices(), self._matrices()
        # By turn, block, source and the rank whose workspace it is.
        self.places: dict[tuple[int, int, int, int], Array] = {}
        self.outputs: dict[int, Ranks] = {
            call: [np.empty(0)] * self.shape.world for call in range(1, len(calls) + 1)
        }

    def run(self, task: Task) -> None:
        """Let a task do what it does."""
        part = (slice(task.row, task.row + task.rows), slice(task.column, task.column + task.columns))
        own, turn = self.inputs[task.rank], task.call % FREE_AFTER
        if task.kind is Kind.FILL:
            given = self.calls[task.call - 1][self.x][task.rank]
            own[part] = np.asarray(given, np.float64).reshape(task.rows, task.columns)
        elif task.kind is Kind.COPY_IN:
            self.sent[task.rank][part] = own[part]
        elif task.kind is Kind.COPY_OUT:
            self.results[task.rank][part] = self.received[task.rank][part]
        elif task.kind is Kind.MOVE and self.instance.collective is Collective.ALL_REDUCE:
            for result in self.received:
                result[part] = self._sum(part)
        elif task.kind is Kind.MOVE and self.instance.collective is Collective.SCATTER:
            self.results[task.rank][part] = self._sum(part)
        elif task.kind is Kind.MOVE:
            self.results[task.peer][part] = own[part]
        elif task.kind is Kind.PUSH_SUMMAND:
            self.places[turn, task.block, task.rank, task.peer] = own[part].copy()
        elif task.kind is Kind.ADD:
            self.results[task.rank][part] = self._sum_of_pushed(task, own[part])
        else:
            self._use(task, part)

    def _sum(self, part: tuple[slice, slice]) -> Array:
        total: Array = np.sum([given[part] for given in self.sent], axis=0)
        return total

    def _sum_of_pushed(self, task: Task, own: Array) -> Array:
        total, missing = own.copy(), np.full(own.shape, np.nan)
        for source in range(self.shape.world):
            if source != task.rank:
                total += self.places.get((task.call % FREE_AFTER, task.block, source, task.rank), missing)
        return total

    def _use(self, task: Task, part: tuple[slice, slice]) -> None:
        """Keep what the caller sees; after that it may write there whatever it likes."""
        result = self.results[task.rank]
        self.outputs[task.call][task.rank] = result[part].copy()
        result[part] = np.nan

    def _matrices(self) -> Ranks:
        return [np.full((self.shape.m, self.shape.n), np.nan) for _ in range(self.shape.world)]
