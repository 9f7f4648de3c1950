"""Pass 5: number the tasks breadth first, so that those an event releases are consecutive."""

from __future__ import annotations

import dataclasses
from collections import deque

import numpy as np

from kgen.passes.errors import CompileError
from kgen.tgraph.tgraph import NONE, START_EVENT, Event, TGraph


def linearize(tgraph: TGraph) -> TGraph:
    """Renumber tasks and events in the order in which events can open; an event's consumers become a range.

    The order is topological: producers have lower numbers than consumers. Needs a normalized graph in which
    every task waits for an event. Raises CompileError if some task can never run.
    """
    missing = [event.producers for event in tgraph.events]
    left = [len(p) for p in missing]
    trigger = [NONE] * len(tgraph.tasks)
    for e, event in enumerate(tgraph.events):
        for task in event.producers:
            trigger[task] = e
    order: list[int] = []
    opened: list[int] = []
    ready = deque([START_EVENT])
    while ready:
        e = ready.popleft()
        opened.append(e)
        order.extend(tgraph.events[e].consumers)
        for task in tgraph.events[e].consumers:
            released = trigger[task]
            if released in (NONE, START_EVENT):
                continue
            left[released] -= 1
            if left[released] == 0:
                ready.append(released)
    if len(order) != len(tgraph.tasks):
        stuck = sorted(set(range(len(tgraph.tasks))) - set(order))
        raise CompileError("linearize", [f"{tgraph.describe(task)} can never run" for task in stuck])

    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    renumbered = []
    for e in opened:
        event = tgraph.events[e]
        producers = np.sort(number[list(event.producers)]) if event.producers else number[:0]
        consumers = number[list(event.consumers)] if event.consumers else number[:0]
        renumbered.append(Event(tuple(producers.tolist()), tuple(consumers.tolist())))
    return dataclasses.replace(
        tgraph,
        tasks=tgraph.tasks.take(np.array(order, dtype=np.int64)),
        events=tuple(renumbered),
        last=NONE if tgraph.last == NONE else int(number[tgraph.last]),
    )
