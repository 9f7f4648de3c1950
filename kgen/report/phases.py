"""What a step of the general worker waits for, found in the events of a tGraph."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from kgen.passes.pipeline import Compilation
from kgen.tgraph.tgraph import EMPTY, NONE, START_EVENT, Event, TGraph

_LAYER = re.compile(r"\.\d+(?=\.)")


@dataclass(frozen=True)
class GeneralPhase:
    """An operator of a layer: `events` events open its tasks, triggered by the operators `waits_for`.

    barrier: one event waits for every task of those operators and opens every task of this one.
    """

    name: str
    waits_for: tuple[str, ...]
    events: int
    barrier: bool


@dataclass(frozen=True)
class GeneralPhases:
    """The phases of the last layer; how many wait for each other, and the barriers, in it and in a step."""

    layer: tuple[GeneralPhase, ...]
    phases_per_layer: int
    barriers_per_layer: int
    phases: int
    barriers: int


def general_phases(compilation: Compilation) -> GeneralPhases:
    """What the tGraph of a compilation makes a step wait for. Phases are counted along the longest chain."""
    graph, tgraph = compilation.graph, compilation.tgraph
    layer_of = [op.layer for op in graph.ops]
    last = max(layer_of)
    op_of = tgraph.tasks.op.tolist()
    tasks_of = Counter(op_of)
    into: dict[int, list[Event]] = defaultdict(list)
    for event in tgraph.events:
        for op in {op_of[task] for task in event.consumers}:
            into[op].append(event)

    def barrier(event: Event) -> bool:
        return all(_whole(op_of, tasks_of, tasks) for tasks in (event.producers, event.consumers))

    def phase(op: int) -> GeneralPhase:
        sources = sorted({op_of[task] for event in into[op] for task in event.producers} - {EMPTY})
        return GeneralPhase(
            name=_LAYER.sub(".*", graph.ops[op].name),
            waits_for=tuple(_LAYER.sub(".*", graph.ops[source].name) for source in sources),
            events=len(into[op]),
            barrier=all(map(barrier, into[op])),
        )

    chain = _longest_chain(tgraph)
    return GeneralPhases(
        layer=tuple(phase(op) for op, layer in enumerate(layer_of) if layer == last),
        phases_per_layer=sum(layer_of[op] == last for op in chain),
        barriers_per_layer=sum(
            barrier(event)
            for event in tgraph.events
            if any(op_of[task] != EMPTY and layer_of[op_of[task]] == last for task in event.consumers)
        ),
        phases=len(chain),
        barriers=sum(map(barrier, tgraph.events)),
    )


def _whole(op_of: list[int], tasks_of: Counter[int], tasks: Iterable[int]) -> bool:
    """Whether these are all tasks of some operators, and no others."""
    here = Counter(op_of[task] for task in tasks)
    return bool(here) and EMPTY not in here and all(tasks_of[op] == count for op, count in here.items())


def _longest_chain(tgraph: TGraph) -> list[int]:
    """Operators of the longest chain of tasks that ends a step, each of which waits for the one before."""
    op_of = tgraph.tasks.op.tolist()
    depth = [0] * len(op_of)
    before = [NONE] * len(op_of)
    deepest: dict[int, int] = {}  # event -> its producer at the end of the longest chain
    waits, triggers = tgraph.waits(), tgraph.triggers()
    for task in range(len(op_of)):  # in linear order, producers come before consumers
        sources = [deepest[event] for event in waits[task] if event != START_EVENT]
        if sources:
            before[task] = max(sources, key=depth.__getitem__)
            depth[task] = depth[before[task]]
        depth[task] += op_of[task] != EMPTY
        for event in triggers[task]:
            if event not in deepest or depth[task] > depth[deepest[event]]:
                deepest[event] = task
    chain = []
    task = tgraph.last
    while task != NONE:
        if op_of[task] != EMPTY:
            chain.append(op_of[task])
        task = before[task]
    return chain[::-1]
