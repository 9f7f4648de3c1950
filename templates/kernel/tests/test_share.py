"""Matrices that the ranks have shown each other: peers read and write them themselves."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import pytest
from problem import Problem
from project import BY_ROLE, KERNEL, OUTPUT
from ranks import Rank, as_threads, meet, new_rendezvous, open_kernel

pytestmark = pytest.mark.skipif(
    not KERNEL["shares"], reason="peers do not use this kernel's matrices themselves"
)


NAMES = [BY_ROLE["rows"], OUTPUT] if KERNEL["collective"] else [OUTPUT]


@pytest.mark.parametrize("gap", [0, 24])
@pytest.mark.parametrize("rows", [2, 3, 257, 1100])  # of 3 some ranks have one, which shows no gap
def test_shared_matrices(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, world: int, rows: int, gap: int
) -> None:
    """Run after run, and between them with memory that was not shared, which is copied."""
    problem, rendezvous = Problem(world, sizes_for(world, rows, 1032), seed=5), new_rendezvous()
    expected = problem.expected()

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        with open_kernel(binding, library, rank, world, rendezvous, **machine.options(rank)) as kernel:
            shared, other = (Rank(kernel, memory, problem, gap=gap) for _ in range(2))
            # As much as the first rank has, so that memory is shown where ranks have fewer rows too.
            roomy = memory.array(problem.output_shape(0), gap)
            roomy.shape = problem.output_shape(rank)
            shared.output = shared.arrays[OUTPUT] = roomy
            meet()
            for name in NAMES:
                array = shared.arrays[name]
                kernel.share(binding.view(name, array.argument()).data, array.buffer.nbytes)
            for turn in range(6):
                mine = other if turn % 3 == 2 else shared
                mine.poison()
                if KERNEL["residual"] and turn % 2 == 1:  # in place: peers write to it too
                    mine.output.set(problem.inputs[rank][BY_ROLE["residual"]])
                    mine.run(**{BY_ROLE["residual"]: mine.output.argument()})
                else:
                    mine.run()
                kernel.wait()
                mine.check(expected[rank], f"rank {rank}, run {turn}")
        memory.free()

    as_threads(world, body)


@pytest.mark.skipif(not KERNEL["shares"], reason="peers do not use this kernel's matrices themselves")
def test_ranks_that_are_not_called_alike(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int
) -> None:
    """One rank has its matrices elsewhere in what was shown: all learn of it, or it does not matter."""
    if some_world == 1:
        pytest.skip("there is nobody else")
    problem, rendezvous = Problem(some_world, sizes_for(some_world, 1100, 1032)), new_rendezvous()
    expected, ready = problem.expected(), threading.Barrier(some_world)

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        options = machine.options(rank) | {"timeout_ms": 1000}
        with open_kernel(binding, library, rank, some_world, rendezvous, **options) as kernel:
            both = [Rank(kernel, memory, problem) for _ in range(2)]
            for mine in both:
                for name in NAMES:
                    array = mine.arrays[name]
                    kernel.share(binding.view(name, array.argument()).data, array.buffer.nbytes)
            mine = both[1 if rank == 0 else 0]
            ready.wait(60)
            mine.run()
            found = None
            try:
                kernel.wait()
            except binding.KernelError as error:
                found = error
            if found is None:  # in one shot nobody looks at what was shown
                assert KERNEL["collective"] == "all_reduce"
                mine.check(expected[rank], f"rank {rank}")
            else:
                assert found.status == binding.Status.INVALID_ARGUMENT, found.sentence
                assert f"rank {rank} and rank {0 if rank else ''}" in found.sentence
        memory.free()

    as_threads(some_world, body)
