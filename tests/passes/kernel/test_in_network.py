"""An all-reduce in the network: what its regions ask for, that flags give it, and what the tasks compute."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kgen.ir.kernel.arithmetic import Ranks
from kgen.passes.errors import CompileError
from kgen.passes.kernel.decompose_collective import make_collective
from kgen.passes.kernel.pipeline import compile_kernel, order_tasks
from kgen.passes.kernel.protocol import check_calls, check_protocol
from kgen.plan.kernel.flags import Family, Flag, sets, waits
from kgen.plan.kernel.instance import CollectiveInstance, Instance, Kind, Shape, Task
from kgen.plan.kernel.interp import run_instance
from tests.kernels import IN_NETWORK, kernel
from tests.passes.kernel.tasks import crossing, inputs, without

GRAPH = kernel(IN_NETWORK)
SIZES = [(1, 2), (5, 2), (1, 4), (7, 3), (2, 4), (13, 6)]
CALL = [Kind.FILL, Kind.COPY_IN, Kind.MOVE, Kind.COPY_OUT, Kind.USE]


def instance_of(m: int, world: int, calls: int = 3) -> CollectiveInstance:
    return make_collective(GRAPH, Shape(m, 8, 0, world), calls=calls)


def test_the_tasks() -> None:
    """Each rank adds its share of the pieces that all have copied, for all; some have none."""
    instance = instance_of(7, 3)
    assert [stage.kind for stage in instance.stages] == CALL * 3
    moves = next(stage for stage in instance.stages if stage.kind is Kind.MOVE)
    assert [(t.rank, t.row, t.rows) for t in moves.tasks] == [(0, 0, 3), (1, 3, 3), (2, 6, 1)]
    assert [access.tensor for access in moves.reads] == ["network.input"]
    assert moves.write.tensor == "network.output"
    assert [t.rank for t in instance_of(1, 4).tasks if t.kind is Kind.MOVE and t.call == 1] == [0]


@pytest.mark.parametrize(("m", "world"), SIZES)
def test_the_flags_are_what_the_regions_ask_for(m: int, world: int) -> None:
    instance = instance_of(m, world)
    counts = check_protocol(instance, order_tasks(instance)[1])
    check_calls(instance)
    assert set(counts) == {Family.BEGUN, Family.DONE}
    assert all(counts.values())


def test_what_it_waits_for() -> None:
    """Only copies meet what the network does: the caller's own matrices are seen by no peer."""
    instance = instance_of(6, 3)
    found = {
        (p.kind, c.kind, flag.family)
        for p, c in crossing(instance)
        for flag in {*sets(p, instance)} & {*waits(c, instance)}
    }
    assert found == {
        (Kind.COPY_IN, Kind.MOVE, Family.BEGUN),
        (Kind.COPY_OUT, Kind.MOVE, Family.BEGUN),
        (Kind.MOVE, Kind.COPY_OUT, Family.DONE),
        (Kind.MOVE, Kind.COPY_IN, Family.DONE),
    }


def test_every_flag_is_needed() -> None:
    instance = instance_of(6, 3, calls=4)
    alone = set()
    for p, c in crossing(instance):
        covering = {*sets(p, instance)} & {*waits(c, instance)}
        if len(covering) == 1:
            alone |= covering
    awaited = {flag for task in instance.tasks for flag in waits(task, instance)}
    assert {flag for flag in awaited if 1 < flag.call < 4} <= alone
    assert len({flag for flag in alone if flag.call == 3}) == 2 * 3 * 2


@pytest.mark.parametrize("family", [Family.BEGUN, Family.DONE])
def test_a_family_that_is_dropped_is_missed(family: Family) -> None:
    instance = instance_of(6, 3)

    def left(task: Task, of: Instance) -> Iterator[Flag]:
        return (flag for flag in waits(task, of) if flag.family is not family)

    with pytest.raises(CompileError, match=r"must come before .*, and no flag says so"):
        check_protocol(instance, order_tasks(instance)[1], awaited_by=left)


def test_a_copy_that_waits_for_the_end_of_its_own_call_would_deadlock() -> None:
    def early(task: Task, of: Instance) -> Iterator[Flag]:
        yield from waits(task, of)
        if task.kind is Kind.COPY_IN:
            yield from (Flag(Family.DONE, task.call, task.rank, r) for r in range(3) if r != task.rank)

    with pytest.raises(CompileError, match=r"these tasks wait for each other: "):
        check_calls(instance_of(6, 3), awaited_by=early)


def computed(m: int, world: int) -> tuple[CollectiveInstance, list[dict[str, Ranks]], list[Ranks]]:
    """Three calls, and what they should give, with a row for each piece."""
    rng = np.random.default_rng(m)
    instance = make_collective(GRAPH, Shape(m, 48, 0, world))
    calls = [inputs(GRAPH, {"M": m}, world, rng) for _ in range(3)]
    wanted = [[y.reshape(-1, 8) for y in GRAPH.evaluate(call)["y"]] for call in calls]
    return instance, calls, wanted


@pytest.mark.parametrize(("m", "world"), [*SIZES, (64, 8)])
def test_every_order_gives_the_same(m: int, world: int) -> None:
    instance, calls, wanted = computed(m, world)
    for seed, tgraph in enumerate(order_tasks(instance) * 3):
        found = run_instance(GRAPH, instance, tgraph, calls, np.random.default_rng(seed))
        np.testing.assert_array_equal(found, wanted)


MUTANTS = [
    ("fill/1", "copy in/1"),
    ("copy in/1", "move/1"),
    ("move/1", "copy out/1"),
    ("copy out/1", "use/1"),
    ("move/1", "copy in/2"),
    ("copy in/1", "fill/2"),
    ("copy out/1", "move/2"),
    ("use/1", "copy out/2"),
]


@pytest.mark.parametrize(("producer", "consumer"), MUTANTS)
def test_each_sort_of_event_is_needed(producer: str, consumer: str) -> None:
    instance, calls, wanted = computed(7, 3)
    fused, _ = order_tasks(instance)
    mutant = without(fused, instance, producer, consumer)
    assert mutant.events != fused.events
    wrong = 0
    for seed in range(20):
        found = run_instance(GRAPH, instance, mutant, calls, np.random.default_rng(seed))
        wrong += not np.array_equal(found, wanted)
    assert wrong


def test_the_samples() -> None:
    checked = compile_kernel(GRAPH).samples
    assert {s.shape.world for s in checked} == {2, 3, 4, 8}
    assert {s.transfers for s in checked} == {("multimem",) * 3}
    assert {s.shots for s in checked} == {0}
