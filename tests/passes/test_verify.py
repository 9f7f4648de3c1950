from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kgen.passes.decompose import decompose
from kgen.passes.dependencies import dependencies
from kgen.passes.errors import CompileError
from kgen.passes.fuse_events import fuse_events
from kgen.passes.linearize import linearize
from kgen.passes.normalize import normalize
from kgen.passes.place import place
from kgen.passes.verify import Stage, verify
from kgen.tgraph.tgraph import START_EVENT, Event, Placement, TGraph
from tests.graphs import TINY, Model, build
from tests.passes.dags import events

SMALL = replace(TINY, layers=1, rows=3, workers=2)
MODELS = {
    "fused": SMALL,
    "separate": replace(SMALL, fused=False),
    "multi_head": replace(SMALL, kv_heads=4, batch=1),
}


def compiled(model: Model) -> TGraph:
    graph = build(model)
    return normalize(fuse_events(dependencies(graph, decompose(graph)))[0])


def problems(tgraph: TGraph, stage: Stage = Stage.FUSED) -> list[str]:
    with pytest.raises(CompileError) as caught:
        verify(tgraph, stage)
    return list(caught.value.problems)


def with_event(tgraph: TGraph, number: int, event: Event) -> TGraph:
    made = list(tgraph.events)
    made[number] = event
    return replace(tgraph, events=tuple(made))


def without(tasks: tuple[int, ...], task: int) -> tuple[int, ...]:
    return tuple(t for t in tasks if t != task)


def plus(tasks: tuple[int, ...], task: int) -> tuple[int, ...]:
    return tuple(sorted({*tasks, task}))


@pytest.mark.parametrize("name", MODELS)
def test_every_single_trigger_that_is_taken_away_is_found(name: str) -> None:
    tgraph = compiled(MODELS[name])
    verify(tgraph, Stage.NORMALIZED)
    ends = next(e for e, event in enumerate(tgraph.events) if tgraph.last in event.consumers)
    count = 0
    for e, event in enumerate(tgraph.events):
        if e == START_EVENT:
            continue
        for task in event.producers:
            count += 1
            less = with_event(tgraph, e, Event(without(event.producers, task), event.consumers))
            assert problems(less)
            if e == ends:
                continue
            # Pointed at the event that ends the step, the task is still done in time for the next one, but
            # no longer before those that need it.
            end = less.events[ends]
            moved = with_event(less, ends, Event(plus(end.producers, task), end.consumers))
            text = "; ".join(problems(moved))
            assert tgraph.describe(task) in text or "never opens" in text, (text, tgraph.describe(task))
    assert count > 30


@pytest.mark.parametrize("name", MODELS)
def test_every_single_wait_that_is_moved_earlier_is_found(name: str) -> None:
    tgraph = compiled(MODELS[name])
    for e, event in enumerate(tgraph.events):
        if e == START_EVENT:
            continue
        for task in event.consumers:
            less = with_event(tgraph, e, Event(event.producers, without(event.consumers, task)))
            start = less.events[START_EVENT]
            moved = with_event(less, START_EVENT, Event(start.producers, plus(start.consumers, task)))
            if len(event.consumers) == 1:
                assert problems(moved) == [f"event {e} releases no task"]
                moved = replace(moved, events=tuple(x for i, x in enumerate(moved.events) if i != e))
            assert any(f"must come before {tgraph.describe(task)}," in p for p in problems(moved))


def test_a_pair_that_no_event_orders_names_both_tasks() -> None:
    graph = events("start => a b; a => c")
    mask = graph.pairs[0].mask.copy()
    mask[1, 2] = True
    graph = replace(graph, pairs=(replace(graph.pairs[0], mask=mask),))
    assert problems(graph) == ["b[0:1] must come before c[0:1], and no event says so"]


def test_a_cycle_names_its_tasks() -> None:
    graph = events("start => a; a d => b; b => c d; c => e")
    assert problems(graph) == ["these tasks wait for each other: b[0:1], d[0:1]"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start => a; => b", ["event 1 never opens, and b[0:1] must wait for it"]),
        ("start => a b; a =>", ["event 1 releases no task"]),
        ("start => a; a c => b", ["c[0:1] waits for no event"]),
    ],
)
def test_events_that_cannot_work(text: str, expected: list[str]) -> None:
    assert problems(events(text)) == expected


def test_tasks_of_an_event_are_listed_once_and_exist() -> None:
    graph = events("start => a b; a => c")
    for tasks in ((0, 0), (1, 0), (7,)):
        broken = with_event(graph, 1, Event(tasks, (2,)))
        assert problems(broken) == ["event 1 does not list its tasks once each in order"]


def test_only_the_last_task_starts_a_step_and_all_others_come_before_it() -> None:
    graph = events("start => a b; a => c", last="c")
    assert problems(graph) == ["b[0:1] must come before c[0:1], and no event says so"]
    graph = with_event(graph, 1, Event((0, 1), (2,)))
    verify(graph, Stage.FUSED)
    other = with_event(graph, START_EVENT, Event((1,), (0, 1)))
    assert problems(other) == ["only c[0:1] may trigger the start of a step"]


def test_degrees() -> None:
    assert problems(events("start => a b; a => c; b => c"), Stage.NORMALIZED) == ["c[0:1] waits for 2 events"]
    assert problems(events("start => a; a => b; a => c"), Stage.NORMALIZED) == ["a[0:1] triggers 2 events"]


def test_linear_order() -> None:
    assert problems(events("start => a c; a => b; b => d"), Stage.LINEAR) == [
        "event 0 releases tasks that are not the 2 from 0 on",
        "event 1 releases tasks that are not the 1 from 2 on",
    ]
    assert problems(events("start => a; c => b; a => c"), Stage.LINEAR)[0] == (
        "c[0:1] triggers what b[0:1] waits for, but is later in the order of every worker"
    )


def test_placement() -> None:
    graph = build(SMALL)
    placed = place(graph, linearize(compiled(SMALL)))
    verify(placed, Stage.PLACED)
    assert placed.placement is not None
    jit, slot = placed.placement.jit, placed.placement.slot
    queued = int(np.count_nonzero(jit))
    assert problems(replace(placed, placement=None), Stage.PLACED) == ["tasks have not been placed"]
    for capacity in (queued - 1, queued // 2, 3 * queued):
        small = replace(placed, placement=Placement(jit, slot, capacity))
        assert f"a queue of {capacity} slots" in problems(small, Stage.PLACED)[0]
    lost = slot.copy()
    lost[0] = -1
    assert problems(replace(placed, placement=Placement(jit, lost, 8)), Stage.PLACED) == [
        f"{placed.describe(0)} has neither a queue nor a worker slot"
    ]
