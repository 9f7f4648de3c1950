"""An all-reduce whose output the ranks have shown each other: peers write to it themselves."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from problem import Problem
from project import KERNEL
from ranks import Rank, as_threads, new_rendezvous, open_kernel

pytestmark = pytest.mark.skipif(
    KERNEL["reduce"] != "all", reason="peers do not write to this kernel's output"
)


@pytest.mark.parametrize("gap", [0, 24])
def test_a_shared_output(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, world: int, gap: int
) -> None:
    """Run after run, and between them into memory that was not shared, which is copied."""
    problem, rendezvous = Problem(world, sizes_for(world, 257, 264), seed=5), new_rendezvous()
    expected = problem.expected()

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        with open_kernel(binding, library, rank, world, rendezvous, **machine.options(rank)) as kernel:
            shared, other = (Rank(kernel, memory, problem, gap=gap) for _ in range(2))
            argument = binding.view("output", shared.output.argument())
            kernel.share(argument.data, shared.output.buffer.nbytes)
            for turn in range(6):
                mine = other if turn % 3 == 2 else shared
                mine.output.poison()
                mine.run()
                kernel.wait()
                expected[rank].check(mine.output.get(), f"rank {rank}, run {turn}")
        memory.free()

    as_threads(world, body)
