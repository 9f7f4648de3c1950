"""Collectives by themselves: what their regions ask for, that flags give it, and what the tasks compute."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kgen.ir.kernel.arithmetic import Ranks
from kgen.passes.errors import CompileError
from kgen.passes.kernel import decompose_collective
from kgen.passes.kernel.decompose_collective import make_collective
from kgen.passes.kernel.pipeline import compile_kernel, order_tasks
from kgen.passes.kernel.protocol import check_calls, check_protocol
from kgen.plan.kernel.flags import Family, Flag, sets, waits
from kgen.plan.kernel.instance import CollectiveInstance, Instance, Kind, Shape, Task
from kgen.plan.kernel.interp import run_instance
from kgen.plan.kernel.tiles import Shards
from tests.kernels import COLLECTIVES, kernel, shipped
from tests.passes.kernel.tasks import crossing, inputs, without

# With the last: an all-reduce in one shot, of blocks of two pieces.
WAYS = [*((name, 0) for name in COLLECTIVES), ("all_reduce", 2)]
IDS = [*COLLECTIVES, "one_shot"]
SIZES = [(1, 2), (5, 2), (1, 4), (7, 3), (2, 4), (13, 6)]


def instance_of(name: str, m: int, world: int, block: int = 0, calls: int = 3) -> CollectiveInstance:
    n = 8 * world if name.startswith("to_") else 8
    return make_collective(kernel(COLLECTIVES[name]), Shape(m, n, 0, world), block=block, calls=calls)


@pytest.mark.parametrize(("m", "world"), SIZES)
@pytest.mark.parametrize(("name", "block"), WAYS, ids=IDS)
def test_the_flags_are_what_the_regions_ask_for(name: str, block: int, m: int, world: int) -> None:
    instance = instance_of(name, m, world, block)
    counts = check_protocol(instance, order_tasks(instance)[1])
    check_calls(instance)
    assert set(counts) == ({Family.PARTIAL} if block else {Family.BEGUN, Family.DONE})
    assert all(counts.values())


@pytest.mark.parametrize(("name", "block"), WAYS, ids=IDS)
def test_a_world_of_one_needs_no_flags(name: str, block: int) -> None:
    instance = instance_of(name, 5, 1, block)
    assert list(crossing(instance)) == []
    assert check_protocol(instance, order_tasks(instance)[1]) == {}


@pytest.mark.parametrize(("name", "block"), WAYS, ids=IDS)
def test_every_flag_is_needed(name: str, block: int) -> None:
    """Where all ranks have rows, each flag of each rank alone orders some pair, once calls follow calls."""
    instance = instance_of(name, 6, 3, block, calls=4)
    alone = set()
    for p, c in crossing(instance):
        covering = {*sets(p, instance)} & {*waits(c, instance)}
        if len(covering) == 1:
            alone |= covering
    awaited = {flag for task in instance.tasks for flag in waits(task, instance)}
    inner = {flag for flag in awaited if 1 < flag.call < 4}  # before and after the calls there is no caller
    assert inner <= alone
    blocks = 3 if block else 1
    assert len({flag for flag in alone if flag.call == 3}) == (1 if block else 2) * 3 * 2 * blocks


def test_what_each_collective_waits_for() -> None:
    """Pairs of kinds of tasks of two ranks, and the flags between them."""

    def found(name: str, block: int = 0) -> set[tuple[str, str, str]]:
        instance = instance_of(name, 6, 3, block)
        return {
            (p.kind.value, c.kind.value, flag.family.value)
            for p, c in crossing(instance)
            for flag in {*sets(p, instance)} & {*waits(c, instance)}
        }

    to_outputs = {("use", "move", "begun"), ("move", "use", "done")}
    of_inputs = {("fill", "move", "begun"), ("move", "fill", "done")}
    assert found("gather") == found("to_columns") == found("to_rows") == to_outputs
    assert found("scatter") == of_inputs
    assert found("all_reduce") == to_outputs | of_inputs
    places = {("push summand", "add", "partial"), ("add", "push summand", "partial")}
    assert found("all_reduce", 2) == places


@pytest.mark.parametrize("family", [Family.BEGUN, Family.DONE, Family.PARTIAL])
@pytest.mark.parametrize(("name", "block"), WAYS, ids=IDS)
def test_a_family_that_is_dropped_is_missed(name: str, block: int, family: Family) -> None:
    instance = instance_of(name, 6, 3, block)
    pairs = list(crossing(instance))
    missed = [
        (p, c)
        for p, c in pairs
        if {f.family for f in {*sets(p, instance)} & {*waits(c, instance)}} == {family}
    ]
    assert bool(missed) == (family in ({Family.PARTIAL} if block else {Family.BEGUN, Family.DONE}))
    if not missed:
        return

    def left(task: Task, of: Instance) -> Iterator[Flag]:
        return (flag for flag in waits(task, of) if flag.family is not family)

    with pytest.raises(CompileError) as caught:
        check_protocol(instance, order_tasks(instance)[1], awaited_by=left)
    assert len(caught.value.problems) == len(missed)
    p, c = missed[0]
    assert caught.value.problems[0] == f"{p} must come before {c}, and no flag says so"


def test_one_flag_that_is_dropped_is_missed() -> None:
    instance = instance_of("all_reduce", 6, 3, 2)
    dropped = Flag(Family.PARTIAL, 2, 0, 1, 2)

    def left(task: Task, of: Instance) -> Iterator[Flag]:
        return (flag for flag in sets(task, of) if flag != dropped)

    with pytest.raises(CompileError) as caught:
        check_protocol(instance, order_tasks(instance)[1], set_by=left)
    assert set(caught.value.problems) == {
        "push summand (rows 4..5, columns 0..7) of rank 1 to rank 0 in call 2 must come before "
        "add (rows 4..5, columns 0..7) of rank 0 in call 2, and no flag says so",
        "add (rows 4..5, columns 0..7) of rank 1 in call 1 must come before "
        "push summand (rows 4..5, columns 0..7) of rank 0 to rank 1 in call 3, and no flag says so",
        "push summand (rows 4..5, columns 0..7) of rank 0 to rank 1 in call 3 waits for a partial flag that "
        "nothing sets",
    }


def test_one_buffer_would_be_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompose_collective, "turn", lambda buffer, call: buffer)
    instance = instance_of("all_reduce", 6, 3, 2)
    text = r"add .* in call 1 must come before push summand .* in call 2, and no flag says so"
    with pytest.raises(CompileError, match=text):
        check_protocol(instance, order_tasks(instance)[1])


def test_a_superfluous_flag_of_one_shot_is_told() -> None:
    instance = instance_of("all_reduce", 6, 3, 2)

    def more(task: Task, of: Instance) -> Iterator[Flag]:
        yield from waits(task, of)
        if task.kind is Kind.USE:
            yield Flag(Family.PARTIAL, task.call, task.rank, task.rank, 7)

    def set_too(task: Task, of: Instance) -> Iterator[Flag]:
        yield from sets(task, of)
        if task.kind is Kind.FILL:
            yield Flag(Family.PARTIAL, task.call, task.rank, task.rank, 7)

    linear = order_tasks(instance)[1]
    with pytest.raises(CompileError, match="waits for a partial flag that nothing sets"):
        check_protocol(instance, linear, awaited_by=more)
    with pytest.raises(CompileError, match=r"the partial flag that fill .* waits for orders nothing"):
        check_protocol(instance, linear, awaited_by=more, set_by=set_too)


def test_to_wait_for_the_end_before_moving_would_deadlock() -> None:
    def early(task: Task, of: Instance) -> Iterator[Flag]:
        yield from waits(task, of)
        if task.kind is Kind.MOVE:
            yield from (Flag(Family.DONE, task.call, task.rank, r) for r in range(3) if r != task.rank)

    with pytest.raises(CompileError, match=r"these tasks wait for each other: move"):
        check_calls(instance_of("gather", 6, 3), awaited_by=early)


def test_blocks_that_add_before_they_push_would_deadlock() -> None:
    """A block that pushes only when it has been given the next one."""

    def late(task: Task, of: Instance) -> Iterator[Flag]:
        for flag in sets(task, of):
            if task.kind is not Kind.PUSH_SUMMAND:
                yield flag
            elif task.block > 0:
                yield flag._replace(number=task.block - 1)

    with pytest.raises(CompileError, match=r"these tasks wait for each other: "):
        check_calls(instance_of("all_reduce", 6, 3, 2), set_by=late)


def test_parts_that_are_missing_or_written_twice_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(Shards):
        def count(self, rank: int) -> int:
            return super().count(rank) - (rank == 1)

    class Long(Shards):
        def count(self, rank: int) -> int:
            return super().count(rank) + (rank == 0)

    monkeypatch.setattr(decompose_collective, "Shards", Short)
    with pytest.raises(CompileError, match="move of call 1 writes 120 elements of 144"):
        instance_of("gather", 6, 3)
    monkeypatch.setattr(decompose_collective, "Shards", Long)
    with pytest.raises(CompileError, match=r"move .* and move .* write the same elements of `output`"):
        instance_of("all_reduce", 6, 3)


def computed(
    name: str, block: int, m: int, world: int
) -> tuple[CollectiveInstance, list[dict[str, Ranks]], list[Ranks]]:
    """Three calls, and what they should give, of an all-reduce with a row for each piece."""
    n = 8 * world if name.startswith("to_") else 24
    graph, rng = kernel(COLLECTIVES[name].replace("N: 48", f"N: {n}")), np.random.default_rng(m)
    instance = make_collective(graph, Shape(m, n, 0, world), block=block)
    calls = [inputs(graph, {"M": m}, world, rng) for _ in range(3)]
    wanted = [graph.evaluate(call)["y"] for call in calls]
    if name == "all_reduce":
        wanted = [[result.reshape(-1, 8) for result in results] for results in wanted]
    return instance, calls, wanted


@pytest.mark.parametrize(("m", "world"), [*SIZES, (64, 1)])
@pytest.mark.parametrize(("name", "block"), WAYS, ids=IDS)
def test_every_order_gives_the_same(name: str, block: int, m: int, world: int) -> None:
    instance, calls, wanted = computed(name, block, m, world)
    graph = kernel(COLLECTIVES[name])
    for seed, tgraph in enumerate(order_tasks(instance) * 3):
        found = run_instance(graph, instance, tgraph, calls, np.random.default_rng(seed))
        for mine, reference in zip(found, wanted, strict=True):
            for got, want in zip(mine, reference, strict=True):
                np.testing.assert_array_equal(got, want)


# That a place is free when it is pushed to again follows from the call between, as in the runtime.
MUTANTS = [
    ("gather", 0, "fill/1", "move/1"),
    ("gather", 0, "move/1", "use/1"),
    ("gather", 0, "use/1", "move/2"),
    ("gather", 0, "move/1", "fill/2"),
    ("scatter", 0, "fill/1", "move/1"),
    ("scatter", 0, "move/1", "use/1"),
    ("scatter", 0, "move/1", "fill/2"),
    ("all_reduce", 0, "use/1", "move/2"),
    ("all_reduce", 0, "move/1", "fill/2"),
    ("to_columns", 0, "move/1", "use/1"),
    ("to_columns", 0, "use/2", "move/3"),
    ("to_rows", 0, "move/1", "use/1"),
    ("to_rows", 0, "use/2", "move/3"),
    ("all_reduce", 2, "fill/1", "push summand/1"),
    ("all_reduce", 2, "push summand/1", "add/1"),
    ("all_reduce", 2, "add/1", "use/1"),
    ("all_reduce", 2, "use/1", "add/2"),
]


@pytest.mark.parametrize(("name", "block", "producer", "consumer"), MUTANTS)
def test_each_sort_of_event_is_needed(name: str, block: int, producer: str, consumer: str) -> None:
    instance, calls, wanted = computed(name, block, 7, 3)
    fused, _ = order_tasks(instance)
    mutant = without(fused, instance, producer, consumer)
    assert mutant.events != fused.events
    wrong = 0
    for seed in range(20):
        found = run_instance(kernel(COLLECTIVES[name]), instance, mutant, calls, np.random.default_rng(seed))
        wrong += any(
            not np.array_equal(got, want)
            for mine, reference in zip(found, wanted, strict=True)
            for got, want in zip(mine, reference, strict=True)
        )
    assert wrong


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
def test_shipped_kernels(name: str) -> None:
    compilation = compile_kernel(shipped(name))
    checked = compilation.samples
    assert {s.shape.world for s in checked} == {w for w in compilation.plan.worlds if w <= 4 or w == 8}
    assert min(s.shape.m for s in checked) == 1
    assert any(s.shape.m % s.shape.world for s in checked)
    assert any(s.shape.m < s.shape.world for s in checked)
    assert {s.shots for s in checked} == ({1, 2} if name == "all_reduce" else {0})


@pytest.mark.parametrize("world", ["1", "16", "2..16"])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_worlds(name: str, world: str) -> None:
    text = COLLECTIVES[name].replace("1..8", world).replace("N: 48", "N: 3840")
    worlds = compile_kernel(kernel(text)).plan.worlds
    assert (worlds[0], worlds[-1]) == {"1": (1, 1), "16": (16, 16), "2..16": (2, 16)}[world]
