"""What the kernel computes, on every rank, against float64."""

from __future__ import annotations

import random
import time
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from problem import Problem
from project import BY_ROLE, KERNEL
from ranks import Rank, as_threads, new_rendezvous, open_kernel

# Sizes of the whole problem; a dim that is fixed in the spec stays as it is. One row; fewer rows than ranks;
# a tile and one row more; shards that do not end with a tile, or are empty; rows of several pieces; sums that
# are shorter than a step, and that do not end with one.
SHAPES = [
    (1, 8, 8),
    (2, 264, 72),
    (129, 248, 136),
    (257, 520, 264),
    (390, 1032, 1096),
    (515, 256, 64),
]
LONG = (300, 264, 10248)  # few tiles of long sums, which blocks share
SHAPES.append(LONG)
if KERNEL["collective"]:
    SHAPES.append((1100, 1032, 8))  # more than goes in one shot


def check_run(
    binding: ModuleType,
    library: Any,
    machine: Any,
    problem: Problem,
    *,
    gap: int = 0,
    runs: int = 1,
    sms: int = 0,
) -> None:
    expected, rendezvous = problem.expected(), new_rendezvous()

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        options = machine.options(rank) | ({"sms": sms} if sms else {})
        with open_kernel(binding, library, rank, problem.world, rendezvous, **options) as kernel:
            mine = Rank(kernel, memory, problem, gap=gap)
            for turn in range(runs):
                mine.poison()
                mine.run()
                kernel.wait()
                mine.check(expected[rank], f"rank {rank}, run {turn}")
        memory.free()

    as_threads(problem.world, body)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_random_data(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, world: int, shape: tuple[int, ...]
) -> None:
    check_run(binding, library, machine, Problem(world, sizes_for(world, *shape)), runs=2)


@pytest.mark.skipif(KERNEL["silu_mul"], reason="what it computes is no whole number")
@pytest.mark.parametrize("shape", [*SHAPES[2:5], LONG], ids=lambda shape: "x".join(map(str, shape)))
def test_whole_numbers_come_out_exactly(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, world: int, shape: tuple[int, ...]
) -> None:
    problem = Problem(world, sizes_for(world, *shape), exact=True, seed=1)
    check_run(binding, library, machine, problem)


def test_rows_with_gaps(binding: ModuleType, library: Any, machine: Any, sizes_for: Any, world: int) -> None:
    """Strides that are longer than the rows; what lies between rows is not touched."""
    check_run(binding, library, machine, Problem(world, sizes_for(world), seed=2), gap=24)


def test_many_ranks(binding: ModuleType, library: Any, machine: Any, sizes_for: Any) -> None:
    """More than the other tests have: eight, or as many as the kernel takes."""
    world = min(8, KERNEL["world"]["hi"])
    if world not in KERNEL["worlds"] or world <= 4:
        pytest.skip("the other tests have as many")
    for seed, shape in enumerate([(1, 264, 136), (390, 264, 136)]):
        check_run(binding, library, machine, Problem(world, sizes_for(world, *shape), seed=seed), runs=2)


def test_few_sms(binding: ModuleType, library: Any, machine: Any, sizes_for: Any, world: int) -> None:
    """Many tiles for each SM, which take less time than to send them: what is between must not run over."""
    problem = Problem(world, sizes_for(world, 1100, 1032, 72), seed=3)
    check_run(binding, library, machine, problem, runs=3, sms=4 if KERNEL["comm_sms"] else 2)


@pytest.mark.skipif(not KERNEL["residual"], reason="this kernel has no residual")
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[4]], ids=lambda shape: "x".join(map(str, shape)))
def test_a_residual_elsewhere_and_in_place(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, world: int, shape: tuple[int, ...]
) -> None:
    """With a stride of its own, and where the output is: x += a product."""
    problem, rendezvous = Problem(world, sizes_for(world, *shape), seed=3), new_rendezvous()
    expected, residual = problem.expected(), BY_ROLE["residual"]

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        options, values = machine.options(rank), problem.inputs[rank][residual]
        with open_kernel(binding, library, rank, world, rendezvous, **options) as kernel:
            apart = memory.array(values.shape, 40)
            apart.set(values)
            mine = Rank(kernel, memory, problem, gap=24)
            for turn in range(3):
                mine.poison()
                mine.run(**{residual: apart.argument()})
                kernel.wait()
                mine.check(expected[rank], f"rank {rank}, run {turn}, elsewhere")
                mine.output.set(values)
                mine.run(**{residual: mine.output.argument()})
                kernel.wait()
                mine.check(expected[rank], f"rank {rank}, run {turn}, in place")
        memory.free()

    as_threads(world, body)


def test_runs_of_other_data_and_sizes(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, world: int
) -> None:
    """One kernel, one problem after the other, all enqueued before anybody waits; ranks come late."""
    shapes = [SHAPES[2], SHAPES[0], SHAPES[3], LONG, SHAPES[1], LONG, SHAPES[0], SHAPES[2], SHAPES[0]]
    problems = [Problem(world, sizes_for(world, *shape), seed=i) for i, shape in enumerate(shapes)]
    expected, rendezvous = [problem.expected() for problem in problems], new_rendezvous()

    def body(rank: int) -> None:
        memory, late = machine.memory(rank), random.Random(rank)
        options = machine.options(rank)
        with open_kernel(binding, library, rank, world, rendezvous, **options) as kernel:
            all_mine = [Rank(kernel, memory, problem) for problem in problems]
            for _ in range(3):
                for mine in all_mine:
                    mine.poison()
                for mine in all_mine:
                    time.sleep(late.random() * 0.002)
                    mine.run()
                kernel.wait()
                for number, mine in enumerate(all_mine):
                    mine.check(expected[number][rank], f"rank {rank}, problem {number}")
        memory.free()

    as_threads(world, body)


@pytest.mark.parametrize("shape", [(260, 264, 136), LONG], ids=lambda shape: "x".join(map(str, shape)))
def test_every_run_gives_the_same_bits(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int, shape: tuple[int, ...]
) -> None:
    if not KERNEL["deterministic"]:
        pytest.skip("this kernel adds in whatever order")
    problem, rendezvous = Problem(some_world, sizes_for(some_world, *shape), seed=4), new_rendezvous()

    def body(rank: int) -> None:
        memory, found = machine.memory(rank), []
        options = machine.options(rank)
        with open_kernel(binding, library, rank, some_world, rendezvous, **options) as kernel:
            mine = Rank(kernel, memory, problem)
            for _ in range(5):
                mine.poison()
                mine.run()
                kernel.wait()
                found.append(mine.output.get())
        memory.free()
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])

    as_threads(some_world, body)
