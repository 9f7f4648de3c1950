"""What only a GPU has: streams, graphs and the current device. Uses the driver through ctypes."""

from __future__ import annotations

import ctypes
import threading
from types import ModuleType
from typing import Any

import pytest
from driver import Driver
from elements import NAN
from problem import Problem
from ranks import Rank, as_threads, new_rendezvous, open_kernel

CAPTURE_THREAD_LOCAL = 1


@pytest.fixture(autouse=True)
def gpus(machine: Any) -> None:
    if not machine.devices:
        pytest.skip("this library runs on the host")


def test_two_streams(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int
) -> None:
    """Runs of one kernel follow each other, whatever stream they are enqueued on."""
    problems = [Problem(some_world, sizes_for(some_world, 400), seed=i) for i in range(2)]
    expected, rendezvous = [problem.expected() for problem in problems], new_rendezvous()

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        driver = Driver()
        streams = [driver.stream() for _ in problems]
        options = machine.options(rank)
        with open_kernel(binding, library, rank, some_world, rendezvous, **options) as kernel:
            both = [Rank(kernel, memory, problem) for problem in problems]
            for turn in range(20):
                for mine in both:
                    mine.poison()
                for mine, stream in zip(both, streams, strict=True):
                    mine.run(stream=stream.value)
                kernel.wait()
                for number, mine in enumerate(both):
                    mine.check(expected[number][rank], f"rank {rank}, run {turn}")
        for stream in streams:
            driver.call("cuStreamDestroy_v2", stream)
        memory.free()

    as_threads(some_world, body)


@pytest.mark.parametrize(
    ("captured", "times", "sms"), [([(129,), (1,)], 1, 0), ([(129,), (300, 264, 10248)], 40, 16)]
)
def test_a_graph_replays_its_runs(
    binding: ModuleType,
    library: Any,
    machine: Any,
    sizes_for: Any,
    some_world: int,
    captured: list[tuple[int, ...]],
    times: int,
    sms: int,
) -> None:
    """Runs of different sizes in a graph, replayed, with runs outside of it in between.

    With SMs to spare, one may begin before the one before it has ended; unless it shares tiles.
    """
    shapes = [*captured, (260,)]
    problems = [Problem(some_world, sizes_for(some_world, *shape), seed=shape[0]) for shape in shapes]
    expected, rendezvous = [problem.expected() for problem in problems], new_rendezvous()
    together = threading.Barrier(some_world)

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        driver, graph, executable = Driver(), ctypes.c_void_p(), ctypes.c_void_p()
        stream = driver.stream()
        options = machine.options(rank) | ({"sms": sms} if sms else {})
        with open_kernel(binding, library, rank, some_world, rendezvous, **options) as kernel:
            all_mine = [Rank(kernel, memory, problem) for problem in problems]
            *replayed, eager = all_mine
            driver.call("cuStreamBeginCapture_v2", stream, CAPTURE_THREAD_LOCAL)
            for mine in replayed * times:
                mine.run(stream=stream.value)
            driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
            driver.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
            for mine in all_mine:
                mine.poison()
                assert (mine.output.read() == NAN).all()  # nothing ran
            for turn in range(5):
                for mine in all_mine:
                    mine.poison()
                together.wait(60)
                driver.call("cuGraphLaunch", executable, stream)
                driver.call("cuGraphLaunch", executable, stream)
                eager.run(stream=stream.value)
                driver.synchronize(stream)
                kernel.wait()
                for number, mine in enumerate(all_mine):
                    mine.check(expected[number][rank], f"rank {rank}, replay {turn}")
            driver.call("cuGraphExecDestroy", executable)
            driver.call("cuGraphDestroy", graph)
        driver.call("cuStreamDestroy_v2", stream)
        memory.free()

    as_threads(some_world, body)


def test_the_current_device_is_kept(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int
) -> None:
    """Another GPU may be current in the caller, where there is one; it stays so."""
    problem, rendezvous = Problem(some_world, sizes_for(some_world)), new_rendezvous()
    expected = problem.expected()

    def body(rank: int) -> None:
        memory, driver = machine.memory(rank), Driver()
        options = machine.options(rank)
        other = (machine.device(rank) + 1) % machine.devices
        with open_kernel(binding, library, rank, some_world, rendezvous, **options) as kernel:
            mine = Rank(kernel, memory, problem)
            driver.use(other)
            before = driver.current()
            mine.run()
            kernel.wait()
            assert driver.current() == before
            driver.use(machine.device(rank))
            mine.check(expected[rank], f"rank {rank}")
            driver.use(other)
            before = driver.current()
        assert driver.current() == before
        driver.use(machine.device(rank))
        memory.free()

    as_threads(some_world, body)


def test_device_that_does_not_exist(binding: ModuleType, library: Any, some_world: int) -> None:
    rendezvous = new_rendezvous()

    def body(rank: int) -> None:
        with pytest.raises(binding.KernelError, match=r"the device is 99, expected 0 to \d+"):
            open_kernel(binding, library, rank, some_world, rendezvous, device=99)

    as_threads(some_world, body)
