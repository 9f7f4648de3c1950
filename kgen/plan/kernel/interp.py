"""Run the tasks of a kernel on NumPy: what they compute in any order that their events allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kgen.ir.kernel.arithmetic import Ranks
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.linear import silu
from kgen.ir.machine import Array
from kgen.plan.kernel.instance import BUFFERS, CollectiveInstance, Instance, Kind, ProductInstance, Task
from kgen.plan.kernel.interp_collective import CollectiveMachine
from kgen.plan.kernel.runtime import Reduce
from kgen.tgraph.tgraph import START_EVENT, TGraph

Inputs = Mapping[str, Ranks]


class InterpError(Exception):
    """Events that let a task never run."""


def run_instance(
    graph: KernelGraph,
    instance: Instance,
    tgraph: TGraph,
    calls: Sequence[Inputs],
    rng: np.random.Generator,
    *,
    kept: list[Ranks] | None = None,
) -> list[Ranks]:
    """The output of each call on every rank, in float64, from its inputs on every rank.

    kept: gets the gathered rows of each call, where these are an output of a product's kernel too.

    The order is one that `rng` draws from those that the events of `tgraph` allow. All memory is poisoned at
    first, so that what a task reads too early shows. Of an all-reduce by itself an output has a row for each
    piece, as its instance.
    """
    machine: _Machine | CollectiveMachine
    if isinstance(instance, CollectiveInstance):
        machine = CollectiveMachine(graph, instance, calls)
    else:
        assert isinstance(instance, ProductInstance)
        machine = _Machine(graph, instance, calls)
    left = [len(event.producers) for event in tgraph.events]
    triggers = tgraph.triggers()
    ready = list(tgraph.events[START_EVENT].consumers)
    done = 0
    while ready:
        number = ready.pop(int(rng.integers(len(ready))))
        origin = int(tgraph.tasks.origin[number])
        if origin >= 0:
            machine.run(instance.tasks[origin])
        done += 1
        for event in triggers[number]:
            left[event] -= 1
            if left[event] == 0:
                ready.extend(tgraph.events[event].consumers)
    if done != len(tgraph.tasks):
        raise InterpError(f"{len(tgraph.tasks) - done} of {len(tgraph.tasks)} tasks never ran")
    if kept is not None and isinstance(machine, _Machine):
        kept.extend(machine.kept[call] for call in range(1, len(calls) + 1))
    return [machine.outputs[call] for call in range(1, len(calls) + 1)]


class _Machine:
    """The memory of all ranks of a kernel with a product."""

    def __init__(self, graph: KernelGraph, instance: ProductInstance, calls: Sequence[Inputs]) -> None:
        product = graph.matmul
        assert product is not None
        self.instance, self.product, self.turns = instance, product, BUFFERS
        shape = instance.shape
        gathered = next((op.reads["x"] for op in graph.ops if op.out == product.x), product.x)
        self.x = gathered if instance.gather else product.x
        self.calls = [
            {name: [np.asarray(r, np.float64) for r in ranks] for name, ranks in c.items()} for c in calls
        ]
        self.gathered = [[_poison(shape.m, shape.k) for _ in range(shape.world)] for _ in range(self.turns)]
        self.kept = {
            call: [_poison(shape.m, shape.k) for _ in range(shape.world)] for call in range(1, len(calls) + 1)
        }
        self.partials: list[dict[tuple[int, int, int], Array]] = [{} for _ in range(self.turns)]
        self.shared = self._matrices(whole=True)  # the output of all calls of an all-reduce
        numbers = range(1, len(calls) + 1)
        self.sums = {call: self._matrices(whole=True) for call in numbers}
        whole = instance.reduce is not Reduce.SCATTER
        self.outputs = {call: self._matrices(whole=whole) for call in numbers}

    def run(self, task: Task) -> None:
        """Let a task do what it does."""
        rows = slice(task.row, task.row + task.rows)
        columns = slice(task.column, task.column + task.columns)
        turn, sums = task.call % self.turns, self.sums[task.call][task.rank]
        own = self._own(task)
        if task.kind in (Kind.PUSH_ROWS, Kind.COPY_ROWS):
            gathered = self.gathered[self.instance.gathered(task.call)]
            gathered[task.peer][rows] = self.calls[task.call - 1][self.x][task.rank][own]
        elif task.kind is Kind.KEEP_ROWS:
            self.kept[task.call][task.rank][rows] = self._rows(task, rows)
        elif task.kind is Kind.MULTIPLY:
            out = self.outputs[task.call][task.rank] if self.instance.reduce is Reduce.NONE else sums
            out[rows, columns] = self._multiply(task, rows, columns)
        elif task.kind is Kind.PUSH_TILE:
            self.partials[turn][task.owner, task.slot, task.rank] = sums[rows, columns].copy()
        elif task.kind is Kind.REDUCE and self.instance.reduce is Reduce.SCATTER:
            total = self._total(task, sums[rows, columns])
            self.outputs[task.call][task.rank][own, columns] = self._added(task, total, own, columns)
        elif task.kind is Kind.REDUCE:
            total = self._total(task, sums[rows, columns])
            self.shared[task.rank][rows, columns] = self._added(task, total, rows, columns)
        elif task.kind is Kind.PUSH_SUM:
            self.shared[task.peer][rows, columns] = self.shared[task.rank][rows, columns]
        else:
            self.outputs[task.call][task.rank] = self.shared[task.rank].copy()

    def _total(self, task: Task, own: Array) -> Array:
        total = own.copy()
        for source in range(self.instance.shape.world):
            if source != task.rank:
                missing = _poison(task.rows, task.columns)
                pushed = self.partials[task.call % self.turns]
                total += pushed.get((task.rank, task.slot, source), missing)
        return total

    def _rows(self, task: Task, rows: slice) -> Array:
        """The task's rows of the first operand, where its rank has them."""
        given = self.calls[task.call - 1][self.x][task.rank]
        if not self.instance.gather:
            return given[rows]
        if task.owner == task.rank:
            return given[self._own(task)]
        return self.gathered[self.instance.gathered(task.call)][task.rank][rows]

    def _multiply(self, task: Task, rows: slice, columns: slice) -> Array:
        inputs, rank, product = self.calls[task.call - 1], task.rank, self.product
        x = self._rows(task, rows)
        result: Array = x @ inputs[product.weight][rank][columns].T
        if product.up is not None:
            result = silu(result) * (x @ inputs[product.up][rank][columns].T)
        # To summands nothing is added: who adds them up adds the rest.
        alone = self.instance.reduce is Reduce.NONE
        return self._added(task, result, rows, columns) if alone else result

    def _added(self, task: Task, result: Array, rows: slice, columns: slice) -> Array:
        """The result with bias and residual, of which `rows` are the task's."""
        inputs, rank, product = self.calls[task.call - 1], task.rank, self.product
        if product.bias is not None:
            result = result + inputs[product.bias][rank][columns]
        if product.residual is not None:
            result = result + inputs[product.residual][rank][rows, columns]
        return result

    def _own(self, task: Task) -> slice:
        """The task's rows within the shard of their owner."""
        begin = task.row - self.instance.shards.begin(task.owner)
        return slice(begin, begin + task.rows)

    def _matrices(self, *, whole: bool) -> Ranks:
        shape, shards = self.instance.shape, self.instance.shards
        return [_poison(shape.m if whole else shards.count(rank), shape.n) for rank in range(shape.world)]


def _poison(*shape: int) -> Array:
    return np.full(shape, np.nan)
