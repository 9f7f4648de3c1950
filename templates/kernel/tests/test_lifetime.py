"""Creating, destroying, ranks that do not come or go away, and several kernels in one process."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from driver import Driver
from problem import Problem
from project import KERNEL
from ranks import Rank, as_threads, meet, new_rendezvous, open_kernel

MEGABYTE = 1 << 20
WORLD = KERNEL["world"]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_things() -> tuple[int, int]:
    """Open file descriptors and threads of this process; not threads that have ended but for the system."""
    time.sleep(0.3)
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def free_device_bytes(machine: Any) -> int:
    if not machine.devices:
        return 0
    driver, free, total = Driver(), ctypes.c_size_t(), ctypes.c_size_t()
    driver.use(0)
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value


@pytest.fixture
def problem(sizes_for: Any, some_world: int) -> Problem:
    return Problem(some_world, sizes_for(some_world, 2 * some_world))


def run_all(
    binding: ModuleType, library: Any, machine: Any, problem: Problem, waits: bool = True, **options: Any
) -> None:
    """A kernel on all ranks, one run, and its end."""
    expected, rendezvous = problem.expected(), new_rendezvous()

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        given = machine.options(rank) | options
        with open_kernel(binding, library, rank, problem.world, rendezvous, **given) as kernel:
            mine = Rank(kernel, memory, problem)
            mine.run()
            if waits:
                kernel.wait()
        mine.check(expected[rank], f"rank {rank}")  # close has waited
        memory.free()

    as_threads(problem.world, body)


def test_create_and_destroy_20_times(
    binding: ModuleType, library: Any, machine: Any, problem: Problem
) -> None:
    for _ in range(3):
        run_all(binding, library, machine, problem)
    memory, things, device = resident_bytes(), open_things(), free_device_bytes(machine)
    for _ in range(20):
        run_all(binding, library, machine, problem)
    assert open_things() == things
    assert resident_bytes() - memory < 16 * MEGABYTE
    assert device - free_device_bytes(machine) < 4 * MEGABYTE


def test_destroy_waits_for_a_run(binding: ModuleType, library: Any, machine: Any, problem: Problem) -> None:
    for _ in range(5):
        run_all(binding, library, machine, problem, waits=False)


def test_wait_is_for_the_runs_enqueued_before_it(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any
) -> None:
    """And not for those that another thread goes on to enqueue."""
    if WORLD["lo"] > 1:
        pytest.skip("needs a world of one rank")
    problem, memory = Problem(1, sizes_for(1, 16)), machine.memory(0)
    with open_kernel(binding, library, 0, 1, new_rendezvous(), **machine.options(0)) as kernel:
        mine = Rank(kernel, memory, problem)
        enough, end = threading.Event(), time.monotonic() + 20

        def enqueue() -> None:
            while not enough.is_set() and time.monotonic() < end:
                mine.run()

        producer = threading.Thread(target=enqueue)
        producer.start()
        time.sleep(0.05)
        kernel.wait()
        still_enqueues = producer.is_alive()
        enough.set()
        producer.join()
        assert still_enqueues
        kernel.wait()
        mine.check(problem.expected()[0], "after many runs")
    memory.free()


def test_ranks_that_do_not_come(binding: ModuleType, library: Any, machine: Any, problem: Problem) -> None:
    if WORLD["hi"] == 1:
        pytest.skip("this kernel has one rank")
    world = max(2, WORLD["lo"])
    things = open_things()
    for rank in (0, 1):
        began = time.monotonic()
        with pytest.raises(binding.KernelError, match=rf"rank {rank} waited 300 ms") as error:
            open_kernel(
                binding, library, rank, world, new_rendezvous(), timeout_ms=300, **machine.options(rank)
            )
        assert error.value.status == binding.Status.TIMEOUT
        assert time.monotonic() - began < 10
    assert open_things() == things
    run_all(binding, library, machine, problem)


def test_a_rank_that_does_not_run(binding: ModuleType, library: Any, machine: Any, problem: Problem) -> None:
    """The others learn which rank they waited for; process and device stay usable, the kernel does not."""
    if not KERNEL["communicates"] or problem.world == 1:
        pytest.skip("nobody waits for anybody")
    rendezvous, here = new_rendezvous(), threading.Barrier(problem.world)
    missing = 0 if KERNEL["gather"] else problem.world - 1  # one with rows, where rows are waited for

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        options = machine.options(rank) | {"timeout_ms": 400}
        with open_kernel(binding, library, rank, problem.world, rendezvous, **options) as kernel:
            mine = Rank(kernel, memory, problem)
            if rank != missing and (KERNEL["reduce"] != "scatter" or problem.output_shape(rank)[0]):
                mine.run()
                for _ in range(2):  # as often as it is asked
                    sentence = rf"rank {rank}, SM \d+ waited 400 ms"
                    with pytest.raises(binding.KernelError, match=sentence) as error:
                        kernel.wait()
                    assert error.value.status == binding.Status.TIMEOUT
                    assert f"rank {missing}" in error.value.sentence
                with pytest.raises(binding.KernelError, match="a run before this one failed: ") as error:
                    mine.run()
                assert error.value.status == binding.Status.TIMEOUT
            here.wait(60)
        memory.free()

    as_threads(problem.world, body)
    run_all(binding, library, machine, problem)


@pytest.mark.parametrize("rows", [129, 3])
def test_a_run_behind_one_that_failed(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int, rows: int
) -> None:
    """It sends nothing: a rank that is late gets what belongs to its run, or learns that it failed."""
    if not KERNEL["communicates"] or some_world == 1:
        pytest.skip("nobody waits for anybody")
    problems = [Problem(some_world, sizes_for(some_world, rows), seed=seed) for seed in (5, 6)]
    expected, rendezvous, failed = problems[0].expected(), new_rendezvous(), threading.Event()

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        options = machine.options(rank) | {"timeout_ms": 400}
        with open_kernel(binding, library, rank, some_world, rendezvous, **options) as kernel:
            first, second = (Rank(kernel, memory, problem) for problem in problems)
            first.poison()
            if rank == 0:
                first.run()
                second.run()
                with pytest.raises(binding.KernelError, match=r"waited \d+ ms"):
                    kernel.wait()
                failed.set()
            else:
                assert failed.wait(60)
                first.run()
                status = None
                try:
                    kernel.wait()
                    first.check(expected[rank], f"rank {rank}")
                except binding.KernelError as error:
                    status = error.status
                assert status in (None, binding.Status.TIMEOUT)
            meet()
        memory.free()

    as_threads(some_world, body)


@pytest.mark.parametrize("rows", [300, 100])
def test_ranks_with_other_sizes(
    binding: ModuleType,
    library: Any,
    machine: Any,
    sizes_for: Any,
    some_world: int,
    rows: int,
) -> None:
    """All ranks learn of it, also those that need not wait for anybody: no result is taken for one.

    And that it was this which they waited for in vain. (A collective could else take another way.)
    """
    others = rows - (1 if KERNEL["collective"] else 30)
    if not KERNEL["communicates"] or some_world == 1:
        pytest.skip("nobody waits for anybody")
    problems = [Problem(some_world, sizes_for(some_world, m)) for m in (rows, others)]
    if problems[0].sizes == problems[1].sizes:
        pytest.skip("this kernel has one size")
    rendezvous, here = new_rendezvous(), threading.Barrier(some_world)

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        options = machine.options(rank) | {"timeout_ms": 1000}
        with open_kernel(binding, library, rank, some_world, rendezvous, **options) as kernel:
            both = [Rank(kernel, memory, problem) for problem in problems]
            here.wait(60)
            both[1 if rank == 0 else 0].run()
            with pytest.raises(binding.KernelError) as error:
                kernel.wait()
            assert error.value.status == binding.Status.INVALID_ARGUMENT, error.value.sentence
            assert f"rank {rank} and rank {0 if rank else ''}" in error.value.sentence
            here.wait(60)
        memory.free()

    as_threads(some_world, body)
    run_all(binding, library, machine, problems[0])


def test_two_kernels_at_the_same_time(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int
) -> None:
    """Each has its own workspace. Each gets a part of the SMs, so that both can run."""
    problems = [Problem(some_world, sizes_for(some_world, 40 + 60 * i), seed=i) for i in range(2)]
    expected = [problem.expected() for problem in problems]
    names = [new_rendezvous() for _ in problems]

    def body(rank: int) -> None:
        memory, options = machine.memory(rank), machine.options(rank)
        if machine.devices:
            options["sms"] = 16
        kernels = [open_kernel(binding, library, rank, some_world, name, **options) for name in names]
        both = [Rank(kernel, memory, problem) for kernel, problem in zip(kernels, problems, strict=True)]
        for turn in range(10):
            for mine in both:
                mine.poison()
            for mine in both:
                mine.run()
            for number, mine in enumerate(both):
                mine.kernel.wait()
                mine.check(expected[number][rank], f"rank {rank}, kernel {number}, run {turn}")
        for kernel in kernels:
            kernel.close()
            kernel.close()
        memory.free()

    as_threads(some_world, body)


def in_a_fork(body: Callable[[], object]) -> int:
    """0 if `body` returns in a fork of this process, 1 if it raises, -SIGALRM if it does not come back."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        code = 1
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_cannot_use_a_kernel_and_may_close_it(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any
) -> None:
    """Threads stay behind in the process that made the kernel: waiting for them would never end."""
    if WORLD["lo"] > 1:
        pytest.skip("needs a world of one rank")
    problem = Problem(1, sizes_for(1, 16))
    memory = machine.memory(0)
    with open_kernel(binding, library, 0, 1, new_rendezvous(), **machine.options(0)) as kernel:
        mine = Rank(kernel, memory, problem)

        def call_all() -> None:
            for call in (mine.run, kernel.wait):
                with pytest.raises(binding.KernelError, match="this is a fork of it"):
                    call()

        assert in_a_fork(call_all) == 0
        assert in_a_fork(kernel.close) == 0
        mine.run()
        kernel.wait()
        mine.check(problem.expected()[0], "after the forks")
    memory.free()


def test_last_error_belongs_to_the_thread(binding: ModuleType, library: Any) -> None:
    sentences: list[bytes] = []

    def fail() -> None:
        assert library.wait(None) == binding.Status.INVALID_ARGUMENT
        sentences.append(library.last_error())

    assert library.create(None, ctypes.byref(ctypes.c_void_p())) == binding.Status.INVALID_ARGUMENT
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert sentences == [b"kernel is NULL"]
    assert library.last_error() == b"options is NULL"


def test_info(binding: ModuleType, library: Any, machine: Any, some_world: int) -> None:
    rendezvous = new_rendezvous()

    def body(rank: int) -> Any:
        with open_kernel(binding, library, rank, some_world, rendezvous, **machine.options(rank)) as kernel:
            return kernel.info

    infos = as_threads(some_world, body)
    assert [info.rank for info in infos] == list(range(some_world))
    assert {info.world for info in infos} == {some_world}
    assert len({info.workspace_bytes for info in infos}) == 1
    assert {info.cuda for info in infos} == {machine.devices > 0}
    assert np.all([info.sms > 0 for info in infos])


def test_an_exchange_of_the_caller(binding: ModuleType, library: Any, machine: Any, some_world: int) -> None:
    """An all-gather of threads, instead of a name to meet under."""
    parts: list[bytes] = [b""] * some_world
    all_here = threading.Barrier(some_world)

    def body(rank: int) -> None:
        def gather(_user: Any, mine: int, everything: int, size: int) -> int:
            parts[rank] = ctypes.string_at(mine, size)
            all_here.wait(60)
            ctypes.memmove(everything, b"".join(parts), size * some_world)
            return 0

        options = machine.options(rank) | {"exchange": binding.EXCHANGE(gather)}
        with open_kernel(binding, library, rank, some_world, None, **options) as kernel:
            assert kernel.info.rank == rank

    as_threads(some_world, body)
