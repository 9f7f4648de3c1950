"""Rows that the copy engine gathers: to one buffer in every call, and by turns with pushes to two."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from kgen.ir.kernel.arithmetic import Ranks
from kgen.ir.kernel.overlap import Transfer
from kgen.passes.errors import CompileError
from kgen.passes.kernel.decompose import make_instance
from kgen.passes.kernel.pipeline import KernelCompilation, compile_kernel, order_tasks
from kgen.passes.kernel.protocol import Flags, check_progress, check_protocol
from kgen.plan.kernel.flags import Family, Flag, sets, waits
from kgen.plan.kernel.instance import Instance, Kind, ProductInstance, Shape, Task
from kgen.plan.kernel.interp import run_instance
from kgen.plan.kernel.tiles import TileGrid
from tests.kernels import AG, AG_KEEP, RS, SMALL, kernel, shipped
from tests.passes.kernel.tasks import inputs, without

GRID = TileGrid(4, 8, 2, 2)
SHAPES = [Shape(1, 24, 16, 2), Shape(13, 24, 16, 2), Shape(29, 24, 16, 3), Shape(5, 24, 16, 4)]
SEQUENCES = ["".join(ways) for length in (3, 4) for ways in product("pc", repeat=length)]
PUSH, COPY = Transfer.REGISTER, Transfer.COPY_ENGINE


def instance_of(ways: str, shape: Shape = SHAPES[1], name: str = "ag") -> ProductInstance:
    """ways: p or c for each call."""
    return make_instance(kernel(SMALL[name]), shape, GRID, calls=len(ways), copied=copied(ways))


def copied(ways: str) -> set[int]:
    return {call for call, way in enumerate(ways, 1) if way == "c"}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["ag", "ag_silu", "ag_all"])
@pytest.mark.parametrize("ways", ["ccc", "cppc", "ppcp"])
def test_the_flags_are_what_the_regions_ask_for(ways: str, name: str, shape: Shape) -> None:
    instance = instance_of(ways, shape, name)
    counts = check_protocol(instance, order_tasks(instance)[1])
    check_progress(instance, 2)
    assert set(counts) == {Family.GATHERED, Family.DONE}
    assert all(counts.values())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ways", ["ppp", "ccc", "cppc", "ppcp"])
def test_rows_that_are_kept(ways: str, shape: Shape) -> None:
    """Read before the peers send others to where they are, in whatever order the flags allow."""
    graph, rng = kernel(AG_KEEP), np.random.default_rng(5)
    instance = make_instance(graph, shape, GRID, calls=len(ways), copied=copied(ways))
    fused, linear = order_tasks(instance)
    counts = check_protocol(instance, linear)
    check_progress(instance, 2)
    assert set(counts) == {Family.GATHERED, Family.DONE}
    calls = [inputs(graph, {"M": shape.m}, shape.world, rng) for _ in ways]
    for seed in range(6):
        kept: list[Ranks] = []
        run_instance(
            graph, instance, (fused, linear)[seed % 2], calls, np.random.default_rng(seed), kept=kept
        )
        for call, found in zip(calls, kept, strict=True):
            for rows in found:
                np.testing.assert_array_equal(rows, np.concatenate(call["a"]))


@pytest.mark.parametrize(("ways", "later"), [("ppp", "push rows/3"), ("ccc", "copy rows/2")])
def test_rows_that_are_kept_too_late_are_caught(ways: str, later: str) -> None:
    """Without what says that they have been read, the next come over them."""
    graph, rng, shape = kernel(AG_KEEP), np.random.default_rng(5), Shape(29, 24, 16, 3)
    instance = make_instance(graph, shape, GRID, calls=len(ways), copied=copied(ways))
    mutant = without(order_tasks(instance)[0], instance, "keep rows/1", later)
    calls = [inputs(graph, {"M": shape.m}, shape.world, rng) for _ in ways]
    wrong = 0
    for seed in range(10):
        kept: list[Ranks] = []
        run_instance(graph, instance, mutant, calls, np.random.default_rng(seed), kept=kept)
        wrong += any(not np.array_equal(rows, np.concatenate(calls[0]["a"])) for rows in kept[0])
    assert wrong

    def set_early(task: Task, of: Instance) -> Iterator[Flag]:
        """A rank says that it is done before it has kept what it was sent."""
        return (f for f in sets(task, of) if task.kind is not Kind.KEEP_ROWS)

    with pytest.raises(CompileError, match=r"keep rows .* must come before .*, and no flag says so"):
        check_protocol(instance, order_tasks(instance)[1], set_by=set_early)


@pytest.mark.parametrize("ways", SEQUENCES)
def test_every_sequence_of_calls_is_safe(ways: str) -> None:
    instance = instance_of(ways)
    check_protocol(instance, order_tasks(instance)[1])


def done_before(kind: Kind, calls: int) -> Flags:
    """Waits in which tasks of a kind wait for the end of no call later than so many calls before."""

    def awaited(task: Task, of: Instance) -> Iterator[Flag]:
        late = task.call - calls if task.kind is kind else task.call
        return (flag for flag in waits(task, of) if flag.family is not Family.DONE or flag.call <= late)

    return awaited


def is_caught(instance: ProductInstance, awaited: Flags) -> bool:
    try:
        check_protocol(instance, order_tasks(instance)[1], awaited_by=awaited)
    except CompileError as error:
        return all(str(text).endswith("and no flag says so") for text in error.problems)
    return False


@pytest.mark.parametrize("ways", SEQUENCES)
def test_pushes_that_do_not_heed_copies_are_caught(ways: str) -> None:
    """Copies use the first buffer, which is that of even calls."""
    clash = any(ways[call - 2 : call] == "cp" for call in range(2, len(ways) + 1, 2))
    assert is_caught(instance_of(ways), done_before(Kind.PUSH_ROWS, 2)) == clash


@pytest.mark.parametrize("ways", SEQUENCES)
def test_copies_that_wait_as_pushes_do_are_caught(ways: str) -> None:
    used = [0 if way == "c" else call % 2 for call, way in enumerate(ways, 1)]
    clash = any(way == "c" and used[i] == 0 for i, way in enumerate(ways[1:]))
    assert is_caught(instance_of(ways), done_before(Kind.COPY_ROWS, 2)) == clash


@pytest.mark.parametrize("family", [Family.DONE, Family.GATHERED])
def test_a_family_that_is_dropped_is_missed(family: Family) -> None:
    def awaited(task: Task, of: Instance) -> Iterator[Flag]:
        return (flag for flag in waits(task, of) if flag.family is not family)

    assert is_caught(instance_of("ccc"), awaited)


def test_what_copies_wait_for_and_say() -> None:
    """A copy waits for its peer alone, which says that it is done whatever its own copies do."""
    instance = instance_of("pcc", Shape(13, 24, 16, 3))
    for task in instance.tasks:
        if task.kind is Kind.COPY_ROWS:
            done = {Flag(Family.DONE, call, task.rank, task.peer) for call in range(1, task.call)}
            assert set(waits(task, instance)) == done
            gathered = Flag(Family.GATHERED, task.call, task.peer, task.rank, task.block)
            assert set(sets(task, instance)) == {gathered}
    assert [instance.gathered(call) for call in (1, 2, 3)] == [1, 0, 0]


def test_text_of_a_copy() -> None:
    (first, *_) = instance_of("c", Shape(5, 24, 16, 2)).tasks
    assert str(first) == "copy rows (rows 0..2) of rank 0 to rank 1 in call 1"


def outputs(instance: ProductInstance, cut: tuple[str, str] | None) -> Iterator[bool]:
    """Whether random orders give what the graph means; cut: kinds of tasks that do not wait."""
    graph, rng, shape = kernel(AG), np.random.default_rng(3), instance.shape
    calls = [inputs(graph, {"M": shape.m}, shape.world, rng) for _ in range(instance.tasks[-1].call)]
    wanted = [graph.evaluate(call)["c"] for call in calls]
    fused, linear = order_tasks(instance)
    for seed in range(8):
        tgraph = without(fused, instance, *cut) if cut else (fused, linear)[seed % 2]
        found = run_instance(graph, instance, tgraph, calls, np.random.default_rng(seed))
        yield all(
            np.array_equal(got, want)
            for mine, reference in zip(found, wanted, strict=True)
            for got, want in zip(mine, reference, strict=True)
        )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ways", ["ccc", "cppc", "ppcp", "pcpc"])
def test_every_order_gives_the_same(ways: str, shape: Shape) -> None:
    assert all(outputs(instance_of(ways, shape), None))


@pytest.mark.parametrize(
    ("ways", "producer", "consumer"),
    [
        ("ccc", "copy rows/1", "multiply/1"),
        ("ccc", "multiply/1", "copy rows/2"),
        ("cppc", "multiply/1", "push rows/2"),
        ("cppc", "multiply/2", "copy rows/4"),
        ("ppcp", "multiply/2", "copy rows/3"),
        ("ppcp", "multiply/3", "push rows/4"),
    ],
)
def test_each_sort_of_event_is_needed(ways: str, producer: str, consumer: str) -> None:
    assert not all(outputs(instance_of(ways, Shape(29, 24, 16, 3)), (producer, consumer)))


def ways_of(compilation: KernelCompilation, world: int) -> set[tuple[Transfer, ...]]:
    return {sample.transfers for sample in compilation.samples if sample.shape.world == world}


def test_what_is_checked_when_a_kernel_is_compiled() -> None:
    by_size = compile_kernel(shipped("ag_gemm"))
    both = {(PUSH,) * 3, (COPY,) * 3}
    assert ways_of(by_size, 1) == {(PUSH,) * 3}
    assert ways_of(by_size, 2) == {*both, (COPY, PUSH, PUSH, COPY), (PUSH, PUSH, COPY, PUSH)}
    assert all(ways_of(by_size, world) == both for world in (3, 4, 8))
    always = compile_kernel(kernel(f"{AG}overlap: {{transfer: copy_engine}}\n"))
    assert ways_of(always, 2) == {(COPY,) * 3}
    for text in (f"{AG}overlap: {{transfer: register}}\n", RS):
        assert ways_of(compile_kernel(kernel(text)), 2) == {()}
