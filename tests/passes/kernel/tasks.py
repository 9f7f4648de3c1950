"""What tests of the tasks of kernels share: pairs of two ranks, inputs, graphs that lack events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kgen.ir.kernel.arithmetic import Ranks
from kgen.ir.kernel.graph import KernelGraph
from kgen.passes.kernel.pipeline import order_tasks
from kgen.plan.kernel.instance import Instance, Task
from kgen.tgraph.tgraph import Event, TGraph


def crossing(instance: Instance) -> Iterator[tuple[Task, Task]]:
    """Pairs of tasks of two ranks."""
    _, linear = order_tasks(instance)
    for block in linear.pairs:
        for p, c in np.argwhere(block.mask).tolist():
            pair = instance.tasks[block.first_producer + p], instance.tasks[block.first_consumer + c]
            if pair[0].rank != pair[1].rank:
                yield pair


def inputs(
    graph: KernelGraph, sizes: dict[str, int], world: int, rng: np.random.Generator
) -> dict[str, Ranks]:
    """Small whole numbers, so that sums are exact in any order. What is added to one is the same on all."""
    found = {
        name: [
            rng.integers(-3, 4, graph.types[name].local_shape(graph.dims, sizes, world, rank)).astype(
                np.float64
            )
            for rank in range(world)
        ]
        for name in graph.inputs
    }
    product = graph.matmul
    if product is not None and graph.types[product.out].partial:
        for name in (product.bias, product.residual):
            if name is not None and graph.types[name].shard is None:
                found[name] = found[name][:1] * world
    return found


def without(tgraph: TGraph, instance: Instance, producer: str, consumer: str) -> TGraph:
    """No task of one kind and call waits for one of another, such as `push rows/1`."""

    def is_(number: int, what: str) -> bool:
        kind, call = what.split("/")
        task = instance.tasks[number]
        return (task.kind.value, task.call) == (kind, int(call))

    events: list[Event] = []
    free: list[int] = list(tgraph.events[0].consumers)
    for event in tgraph.events[1:]:
        if any(is_(task, consumer) for task in event.consumers):
            event = Event(tuple(t for t in event.producers if not is_(t, producer)), event.consumers)
        if event.producers:
            events.append(event)
        else:
            free += event.consumers
    return replace(tgraph, events=(Event((), tuple(sorted(free))), *events))
