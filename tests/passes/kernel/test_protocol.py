"""What the analysis of regions asks for, and that the runtime's flags give it, all of it and no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from kgen.passes.errors import CompileError
from kgen.passes.kernel.decompose import make_instance
from kgen.passes.kernel.pipeline import compile_kernel, order_tasks
from kgen.passes.kernel.protocol import Pushes, check_progress, check_protocol
from kgen.plan.kernel.flags import Family, Flag, sets, waits
from kgen.plan.kernel.instance import Instance, Kind, ProductInstance, Shape, Task
from kgen.plan.kernel.runtime import Reduce
from kgen.plan.kernel.tiles import TileGrid
from tests.kernels import AG, AR, RS, SMALL, kernel, shipped
from tests.passes.kernel.tasks import crossing

GRID = TileGrid(4, 8, 2, 2)
SHAPES = [
    Shape(1, 24, 8, 2),
    Shape(13, 24, 8, 2),
    Shape(29, 12, 8, 3),
    Shape(24, 8, 8, 1),
    Shape(5, 16, 8, 4),
]


def instance_of(text: str, shape: Shape, calls: int = 3) -> ProductInstance:
    return make_instance(kernel(text), shape, GRID, calls=calls)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_the_flags_are_what_the_regions_ask_for(name: str, shape: Shape) -> None:
    instance = instance_of(SMALL[name], shape)
    _, linear = order_tasks(instance)
    counts = check_protocol(instance, linear)
    check_progress(instance, 2)
    wanted = {
        "gemm": set(),
        "rs": {Family.PARTIAL, Family.DONE},
        "ar": {Family.PARTIAL, Family.DONE, Family.ENDS},
    }
    assert set(counts) == (wanted.get(name, {Family.GATHERED, Family.DONE}) if shape.world > 1 else set())
    assert all(counts.values())


def test_events_of_gathered_rows_are_the_flags() -> None:
    """One event for each flag: the push of a block to a rank, and all tiles of that rank that need it."""
    instance = instance_of(AG, Shape(29, 24, 8, 3), calls=1)
    fused, _ = order_tasks(instance)
    found = set()
    for event in fused.events[1:]:
        producers = [instance.tasks[i] for i in event.producers]
        consumers = [instance.tasks[i] for i in event.consumers]
        (flag,) = {f for task in producers for f in sets(task, instance)} & set(waits(consumers[0], instance))
        assert [task.kind for task in producers] == [Kind.PUSH_ROWS]
        assert all(flag in waits(task, instance) for task in consumers)
        assert len(consumers) == 3
        found.add(flag)
    assert found == {
        Flag(Family.GATHERED, 1, a, s, b) for a in range(3) for s in range(3) for b in range(3) if a != s
    }


def test_events_of_partials_are_the_flags_of_a_tile() -> None:
    """A sum waits for its own product and for one push from each other rank."""
    instance = instance_of(RS, Shape(29, 24, 8, 3), calls=1)
    fused, _ = order_tasks(instance)
    sums = {i for i, task in enumerate(instance.tasks) if task.kind is Kind.REDUCE}
    for event in fused.events[1:]:
        if not sums & set(event.consumers):
            continue
        (total,) = (instance.tasks[i] for i in event.consumers)
        producers = [instance.tasks[i] for i in event.producers]
        pushes = [task for task in producers if task.kind is Kind.PUSH_TILE]
        wanted = {flag for task in pushes for flag in sets(task, instance) if flag.family is Family.PARTIAL}
        assert wanted == set(waits(total, instance))
        assert [task.rank for task in producers if task.kind is Kind.MULTIPLY] == [total.rank]
        sums -= set(event.consumers)
    assert not sums


FAMILIES = {
    "ag": (AG, {Family.GATHERED, Family.DONE}),
    "rs": (RS, {Family.PARTIAL, Family.DONE}),
    "ar": (AR, {Family.PARTIAL, Family.DONE, Family.ENDS}),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("family", Family)
def test_a_family_that_is_dropped_is_missed(name: str, family: Family) -> None:
    text, families = FAMILIES[name]
    instance = instance_of(text, Shape(13, 24, 8, 2))
    pairs = list(crossing(instance))
    missed = [
        (p, c)
        for p, c in pairs
        if all(f.family is family for f in {*sets(p, instance)} & {*waits(c, instance)})
    ]
    if not missed:
        assert family not in families
        return

    def without(task: Task, of: Instance) -> Iterator[Flag]:
        return (flag for flag in waits(task, of) if flag.family is not family)

    _, linear = order_tasks(instance)
    with pytest.raises(CompileError) as caught:
        check_protocol(instance, linear, awaited_by=without)
    assert len(caught.value.problems) == len(missed)
    p, c = missed[0]
    assert caught.value.problems[0] == f"{p} must come before {c}, and no flag says so"


def test_a_superfluous_flag_is_told() -> None:
    instance = instance_of(AG, Shape(13, 24, 8, 2))
    _, linear = order_tasks(instance)

    def more(task: Task, of: Instance) -> Iterator[Flag]:
        yield from waits(task, of)
        if task.kind is Kind.MULTIPLY and task.owner != task.rank:  # every block of that owner
            for block in range(2):
                yield Flag(Family.GATHERED, task.call, task.rank, task.owner, block)

    check_protocol(instance, linear, awaited_by=more)  # each orders something for other tiles

    def set_too_late(task: Task, of: Instance) -> Iterator[Flag]:
        return (f._replace(number=99) if f.family is Family.GATHERED else f for f in sets(task, of))

    with pytest.raises(CompileError) as caught:
        check_protocol(instance, linear, set_by=set_too_late)
    assert any("waits for a gathered flag that nothing sets" in text for text in caught.value.problems)

    def both(task: Task, of: Instance) -> Iterator[Flag]:
        yield from sets(task, of)
        yield Flag(Family.PARTIAL, task.call, 0, 1)

    def idle(task: Task, of: Instance) -> Iterator[Flag]:
        yield from waits(task, of)
        if task.kind is Kind.MULTIPLY and task.owner == task.rank == 0:
            yield Flag(Family.PARTIAL, task.call, 0, 1)

    with pytest.raises(CompileError, match=r"the partial flag that .* sets and .* waits for orders nothing"):
        check_protocol(instance, linear, set_by=both, awaited_by=idle)


def test_own_tiles_first_would_deadlock() -> None:
    """Consumers that wait for summands before they compute what their peers wait for."""
    instance = replace(instance_of(RS, Shape(13, 24, 8, 2)), reduce=Reduce.NONE)
    with pytest.raises(CompileError, match=r"these tasks wait for each other: .*reduce"):
        check_progress(instance, 2)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("text", [AG, RS, AR], ids=["ag", "rs", "ar"])
def test_agents_that_push_for_several_sms(text: str, shape: Shape) -> None:
    instance = instance_of(text, shape, calls=1)
    for sms, agents in ((2, 1), (4, 1), (4, 3), (6, 4), (2, 8)):
        check_progress(instance, sms, agents)


def one_by_one(blocks: Sequence[Pushes]) -> Iterator[int]:
    return (push for tiles in blocks for pushes in tiles for push in pushes)


def test_an_agent_that_ends_one_block_before_the_next_would_deadlock() -> None:
    """Its first block has sums to push, for which it needs summands that its peer pushes after such sums."""
    instance = instance_of(AR, Shape(10, 24, 8, 2), calls=1)
    check_progress(instance, 4, 1)
    check_progress(instance, 4, 4, served=one_by_one)  # each has one block
    with pytest.raises(CompileError, match=r"these tasks wait for each other: .*push sum"):
        check_progress(instance, 4, 1, served=one_by_one)


def test_text_of_a_task() -> None:
    tasks = [str(task) for task in instance_of(RS, Shape(5, 24, 8, 2), calls=1).tasks]
    assert tasks[0] == "multiply (rows 3..4, columns 0..7) of rank 0 in call 1"
    assert "push tile (rows 3..4, columns 8..15) of rank 0 to rank 1 in call 1" in tasks


@pytest.mark.parametrize("name", ["gemm", "ag_gemm", "ag_gemm_silu_mul", "gemm_rs"])
def test_shipped_kernels(name: str) -> None:
    compilation = compile_kernel(shipped(name))
    worlds = {sample.shape.world for sample in compilation.samples}
    assert {min(worlds), max(worlds)} == {compilation.plan.worlds[0], compilation.plan.worlds[-1]}
    assert min(sample.shape.m for sample in compilation.samples) == 1
    assert any(sample.shape.m % 128 for sample in compilation.samples if sample.shape.m > 128)
