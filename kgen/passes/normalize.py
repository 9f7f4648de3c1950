"""Pass 4: every task waits for at most one event and triggers at most one.

A task that releases several events (a fork) triggers a new one instead, which opens an empty task for each of
them; a task that waits for several (a join) waits for a new one, which an empty task behind each of them
triggers. Tasks with the same set of events share the new event: whoever is behind one of these events
is behind all those tasks already, so nothing is ordered that was not before. This works for every DAG.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from kgen.tgraph.tgraph import Event, TGraph


def normalize(tgraph: TGraph) -> TGraph:
    """Split forks and joins; the new tasks and events come after the others."""
    producers = [set(event.producers) for event in tgraph.events]
    consumers = [set(event.consumers) for event in tgraph.events]
    next_task = len(tgraph.tasks)

    for events, tasks in _shared(tgraph.triggers()):
        fork = len(producers)
        producers.append(set(tasks))
        consumers.append(set())
        for event in events:
            producers[event] = (producers[event] - tasks) | {next_task}
            consumers[fork].add(next_task)
            next_task += 1
    for events, tasks in _shared(tgraph.waits()):
        join = len(producers)
        producers.append(set())
        consumers.append(set(tasks))
        for event in events:
            consumers[event] = (consumers[event] - tasks) | {next_task}
            producers[join].add(next_task)
            next_task += 1

    grown = tgraph.tasks.with_empty(next_task - len(tgraph.tasks))
    made = tuple(Event(tuple(sorted(p)), tuple(sorted(c))) for p, c in zip(producers, consumers, strict=True))
    return dataclasses.replace(tgraph, tasks=grown, events=made)


def _shared(lists: Sequence[Sequence[int]]) -> list[tuple[tuple[int, ...], set[int]]]:
    """Sets of two or more events, each with the tasks that have exactly this set."""
    groups: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for task, events in enumerate(lists):
        if len(events) > 1:
            groups[tuple(events)].add(task)
    return list(groups.items())
