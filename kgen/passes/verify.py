"""What must hold of a tGraph between passes: a graph that fails is an error, not a hang on the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from itertools import pairwise

import numpy as np

from kgen.passes.errors import CompileError
from kgen.tgraph.tgraph import NONE, START_EVENT, IntArray, PairBlock, TGraph

_SHOWN = 8  # problems of one sort that an error lists


class Stage(IntEnum):
    """How far a graph is; each stage must keep what the ones before it promise."""

    FUSED = 0  # it has events
    NORMALIZED = 1  # at most one event before and one after a task
    LINEAR = 2  # an event's consumers are consecutive, and producers come before consumers
    PLACED = 3  # every task has a slot or goes through the queue


def verify(tgraph: TGraph, stage: Stage) -> None:
    """Check a graph; raises CompileError with what is wrong.

    Acyclic; every task is released and every event triggered; each pair that the regions ask for is ordered
    by a path of events; each task comes before the one that ends the step; and what the stage promises.
    """
    _check_lists(tgraph, stage)
    order = _Order(tgraph)
    problems = [*_check_events(tgraph), *order.check_acyclic()]
    if not problems:
        problems = [*order.check_pairs(), *order.check_last()]
    if stage >= Stage.NORMALIZED:
        problems += _check_degrees(tgraph)
    if stage >= Stage.LINEAR:
        problems += _check_linear(tgraph)
    if stage >= Stage.PLACED:
        problems += _check_placement(tgraph)
    if problems:
        raise _error(stage, problems)


def _error(stage: Stage, problems: list[str]) -> CompileError:
    return CompileError(f"verify ({stage.name.lower()} graph)", problems)


def _check_lists(tgraph: TGraph, stage: Stage) -> None:
    count = len(tgraph.tasks)
    for e, event in enumerate(tgraph.events):
        for tasks in (event.producers, event.consumers):
            if any(not 0 <= t < count for t in tasks) or any(a >= b for a, b in pairwise(tasks)):
                raise _error(stage, [f"event {e} does not list its tasks once each in order"])


def _check_events(tgraph: TGraph) -> Iterator[str]:
    released = np.zeros(len(tgraph.tasks), dtype=np.bool_)
    for e, event in enumerate(tgraph.events):
        if e != START_EVENT and not event.producers:
            names = ", ".join(tgraph.describe(task) for task in event.consumers[:_SHOWN])
            yield f"event {e} never opens, and {names} must wait for it"
        if e != START_EVENT and not event.consumers:
            yield f"event {e} releases no task"
        released[list(event.consumers)] = True
    for task in np.flatnonzero(~released)[:_SHOWN].tolist():
        yield f"{tgraph.describe(task)} waits for no event"
    if tgraph.last != NONE and tgraph.events[START_EVENT].producers != (tgraph.last,):
        yield f"only {tgraph.describe(tgraph.last)} may trigger the start of a step"


class _Order:
    """Happens-before as bit sets over events: bit f of `after[e]` says that f opens after e, or is e."""

    def __init__(self, tgraph: TGraph) -> None:
        self.tgraph = tgraph
        self.wait = _Classes(tgraph.waits())
        # The trigger of START_EVENT is for the next step and orders nothing in this one.
        self.trigger = _Classes([[e for e in events if e != START_EVENT] for events in tgraph.triggers()])
        self.following: list[set[int]] = [set() for _ in tgraph.events]
        for w, t in set(zip(self.wait.of_task.tolist(), self.trigger.of_task.tolist(), strict=True)):
            for event in self.wait.events[w]:
                self.following[event].update(self.trigger.events[t])
        self.sorted = _topological(self.following)
        self.after = [0] * len(self.following)
        for e in reversed(self.sorted):
            reach = 1 << e
            for f in self.following[e]:
                reach |= self.after[f]
            self.after[e] = reach
        self._known: dict[tuple[int, int], bool] = {}
        self.after_class = [self._union(events) for events in self.trigger.events]

    def _union(self, events: tuple[int, ...]) -> int:
        result = 0
        for e in events:
            result |= self.after[e]
        return result

    def check_acyclic(self) -> Iterator[str]:
        """Tasks that wait for themselves through others."""
        stuck = set(range(len(self.following))) - set(self.sorted)
        while ends := {e for e in stuck if not self.following[e] & stuck}:  # behind a cycle, not on it
            stuck -= ends
        if stuck:
            names = [
                self.tgraph.describe(task)
                for task, (w, t) in enumerate(zip(self.wait.of_task, self.trigger.of_task, strict=True))
                if stuck.intersection(self.wait.events[w]) and stuck.intersection(self.trigger.events[t])
            ]
            yield "these tasks wait for each other: " + ", ".join(names[:_SHOWN])

    def ordered(self, trigger: int, wait: int) -> bool:
        """Whether tasks of a wait class run after tasks of a trigger class."""
        key = (trigger, wait)
        known = self._known.get(key)
        if known is None:
            after = self.after_class[trigger]
            known = self._known[key] = any(after >> e & 1 for e in self.wait.events[wait])
        return known

    def check_pairs(self) -> Iterator[str]:
        """Pairs that the regions ask for and that no path of events orders."""
        shown = 0
        origin = self.tgraph.tasks.origin
        number = np.full(len(origin), NONE, dtype=np.int64)
        number[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
        for block in self.tgraph.pairs:
            for p, c in self._unordered(block, number):
                yield _missing(self.tgraph, int(number[p]), int(number[c]))
                shown += 1
                if shown == _SHOWN:
                    return

    def _unordered(self, block: PairBlock, number: IntArray) -> Iterator[tuple[int, int]]:
        rows, columns = block.mask.shape
        producers = number[block.first_producer : block.first_producer + rows]
        consumers = number[block.first_consumer : block.first_consumer + columns]
        triggers, row_class = np.unique(self.trigger.of_task[producers], return_inverse=True)
        waits, column_class = np.unique(self.wait.of_task[consumers], return_inverse=True)
        if len(triggers) == 1 and len(waits) == 1 and self.ordered(int(triggers[0]), int(waits[0])):
            return
        p, c = np.nonzero(block.mask)
        needed = np.zeros((len(triggers), len(waits)), dtype=np.bool_)
        needed[row_class[p], column_class[c]] = True
        for i, j in np.argwhere(needed).tolist():
            if not self.ordered(int(triggers[i]), int(waits[j])):
                first = np.flatnonzero((row_class[p] == i) & (column_class[c] == j))[0]
                yield int(block.first_producer + p[first]), int(block.first_consumer + c[first])

    def check_last(self) -> Iterator[str]:
        """Tasks that may still run, or be read, when the next step starts."""
        last = self.tgraph.last
        if last == NONE:
            return
        wait = int(self.wait.of_task[last])
        late = [c for c in range(len(self.trigger.events)) if not self.ordered(c, wait)]
        for task in np.flatnonzero(np.isin(self.trigger.of_task, late)).tolist()[: _SHOWN + 1]:
            if task != last:
                yield _missing(self.tgraph, task, last)


def _missing(tgraph: TGraph, before: int, after: int) -> str:
    return f"{tgraph.describe(before)} must come before {tgraph.describe(after)}, and no event says so"


class _Classes:
    """Tasks with the same events are one class: `of_task` [tasks] says which, `events` gives its events."""

    def __init__(self, lists: list[list[int]]) -> None:
        numbers: dict[tuple[int, ...], int] = {}
        self.of_task = np.array([numbers.setdefault(tuple(x), len(numbers)) for x in lists], dtype=np.int64)
        self.events = list(numbers)


def _topological(following: list[set[int]]) -> list[int]:
    """Nodes so that each comes before those that follow it; nodes on or behind a cycle are left out."""
    before = [0] * len(following)
    for nodes in following:
        for node in nodes:
            before[node] += 1
    result = [node for node, count in enumerate(before) if count == 0]
    for node in result:
        for other in following[node]:
            before[other] -= 1
            if before[other] == 0:
                result.append(other)
    return result


def _check_degrees(tgraph: TGraph) -> Iterator[str]:
    waits = [task for event in tgraph.events for task in event.consumers]
    triggers = [task for event in tgraph.events for task in event.producers]
    for what, tasks in (("waits for", waits), ("triggers", triggers)):
        counts = np.bincount(np.array(tasks, dtype=np.int64))
        for task in np.flatnonzero(counts > 1)[:_SHOWN].tolist():
            yield f"{tgraph.describe(task)} {what} {counts[task]} events"


def _check_linear(tgraph: TGraph) -> Iterator[str]:
    following = 0
    for e, event in enumerate(tgraph.events):
        count = len(event.consumers)
        if event.consumers != tuple(range(following, following + count)):
            yield f"event {e} releases tasks that are not the {count} from {following} on"
        following += count
        if e == START_EVENT or not event.producers or not event.consumers:
            continue
        # Also what makes every worker's list, a part of this order, free of a wait for a later entry.
        late, early = event.producers[-1], event.consumers[0]
        if late >= early:
            names = tgraph.describe(late), tgraph.describe(early)
            yield f"{names[0]} triggers what {names[1]} waits for, but is later in the order of every worker"


def _check_placement(tgraph: TGraph) -> Iterator[str]:
    placement = tgraph.placement
    if placement is None or len(placement.jit) != len(tgraph.tasks):
        yield "tasks have not been placed"
        return
    for task in np.flatnonzero(placement.jit == (placement.slot >= 0))[:_SHOWN].tolist():
        how = "a queue and a worker slot" if placement.jit[task] else "neither a queue nor a worker slot"
        yield f"{tgraph.describe(task)} has {how}"
    queued = int(np.count_nonzero(placement.jit))
    capacity = placement.queue_capacity
    if capacity < queued or capacity & (capacity - 1):
        yield f"a queue of {capacity} slots is not a power of two that holds the {queued} tasks of a step"
