"""Ranks as threads of this process, or as processes that run worker.py."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from memory import HostArray, Memory
from problem import Expected, Problem
from project import KEPT, OUTPUT, TENSORS

_numbers = itertools.count()
_PATIENCE_S = 120
_meeting = threading.local()  # .place: of the ranks that are threads together


def new_rendezvous() -> str:
    """A name that no other test of this host uses at the same time."""
    return f"test-{os.getpid()}-{next(_numbers)}"


def as_threads(world: int, body: Callable[[int], Any]) -> list[Any]:
    """What `body(rank)` returned on every rank; raises the first error."""
    results: list[Any] = [None] * world
    errors: list[tuple[int, BaseException]] = []
    place = threading.Barrier(world)

    def run(rank: int) -> None:
        _meeting.place = place
        try:
            results[rank] = body(rank)
        except BaseException as error:
            errors.append((rank, error))
            place.abort()

    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}") for rank in range(world)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + _PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
        assert not thread.is_alive(), f"{thread.name} hangs"
    if errors:
        raise errors[0][1]
    return results


def meet() -> None:
    """Returns when all ranks that are threads together call, or one has failed.

    On a GPU that ranks share, allocating and freeing memory may wait for the kernels that run, and these for
    a rank that has not begun: so all allocate before the first runs, and all have run before the first frees.
    """
    place = getattr(_meeting, "place", None)
    if place is not None:
        with suppress(threading.BrokenBarrierError):
            place.wait(_PATIENCE_S)


def as_processes(
    world: int, case: dict[str, Any], library: Path, environment: Sequence[dict[str, str]] = ()
) -> list[subprocess.CompletedProcess[str]]:
    """How worker.py ended for every rank."""
    program, rendezvous = Path(__file__).with_name("worker.py"), new_rendezvous()
    started = []
    for rank in range(world):
        arguments = json.dumps(
            case | {"rank": rank, "world": world, "rendezvous": rendezvous, "library": str(library)}
        )
        variables = os.environ | (environment[rank] if environment else {})
        started.append(
            subprocess.Popen(
                [sys.executable, str(program), arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=variables,
            )
        )
    ended = []
    for process in started:
        try:
            out, err = process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += "\nthe test ran out of patience"
        ended.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return ended


class Rank:
    """A kernel and the matrices of a problem, of one rank.

    Made by all ranks that are threads, and done when all have theirs (`meet`).
    """

    def __init__(self, kernel: Any, memory: Memory, problem: Problem, *, gap: int = 0) -> None:
        rank = kernel.info.rank
        self.kernel, self.problem = kernel, problem
        self.stream = memory.stream.value if memory.stream is not None else None
        self.arrays: dict[str, HostArray] = {}
        for name, values in problem.inputs[rank].items():
            self.arrays[name] = memory.array(values.shape, gap)
            self.arrays[name].set(values)
        self.output = self.arrays[OUTPUT] = memory.array(problem.output_shape(rank), gap)
        if KEPT is not None:
            shape = tuple(problem.sizes[dim] for dim in TENSORS[KEPT]["shape"])
            self.arrays[KEPT] = memory.array(shape, gap)
        meet()

    def poison(self) -> None:
        """NAN in all that a run writes."""
        for name in filter(None, (OUTPUT, KEPT)):
            self.arrays[name].poison()

    def check(self, expected: Expected, what: str) -> None:
        """That a run has left what it should."""
        expected.check(self.output.get(), what)
        if KEPT is not None:
            np.testing.assert_array_equal(self.arrays[KEPT].get(), expected.kept, f"{what}: {KEPT}")

    def run(self, **more: Any) -> None:
        """Enqueue a run, on the rank's stream if no other is given."""
        arguments = {name: array.argument() for name, array in self.arrays.items()}
        self.kernel.run(sizes=self.problem.sizes, **({"stream": self.stream} | arguments | more))


def open_kernel(
    binding: ModuleType, library: Any, rank: int, world: int, rendezvous: str | None, **options: Any
) -> Any:
    """A kernel with options that suit tests, closed when all ranks close theirs."""
    kernel = binding.Kernel(rank, world, rendezvous, library=library, **({"timeout_ms": 20000} | options))
    close = kernel.close

    def close_together() -> None:
        meet()
        close()

    kernel.close = close_together
    return kernel
