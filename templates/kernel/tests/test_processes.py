"""Ranks that are processes, and what slow or dying ones do to the others."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from project import KERNEL
from ranks import as_processes

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_", "PMI", "SLURM_", "MASTER_", "TORCHELASTIC_")


@pytest.fixture(autouse=True)
def without_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(LAUNCHERS):
            monkeypatch.delenv(name)


@pytest.fixture
def processes(machine: Any, some_world: int) -> int:
    """How many; on GPUs each has its own, as kernels of several processes take turns on one."""
    if machine.devices and machine.devices < some_world:
        pytest.skip(f"there are {machine.devices} GPUs for {some_world} processes")
    return some_world


def check_all(ended: list[Any]) -> None:
    for rank, process in enumerate(ended):
        assert process.returncode == 0, f"rank {rank}: {process.stderr}"


def test_processes(machine: Any, library: Any, sizes_for: Any, processes: int) -> None:
    case = {"sizes": sizes_for(processes, 300), "devices": machine.devices, "runs": 5, "late": True}
    check_all(as_processes(processes, case, library.path))


def test_stragglers(machine: Any, library: Any, sizes_for: Any, processes: int) -> None:
    """On the host threads sleep at times inside the kernel; on a GPU ranks only begin late."""
    case = {"sizes": sizes_for(processes, 1), "devices": machine.devices, "runs": 40, "late": True, "sms": 3}
    case["exact"] = not KERNEL["silu_mul"]
    for seed in ("3", "4"):
        check_all(as_processes(processes, case, library.path, [{"PK_STRAGGLE": seed}] * processes))


def test_the_environment_of_torchrun(machine: Any, library: Any, sizes_for: Any, processes: int) -> None:
    case = {"sizes": sizes_for(processes), "devices": machine.devices, "by_environment": True}
    job = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "localhost", "MASTER_PORT": str(os.getpid())}
    environment = [job | {"RANK": str(r), "LOCAL_RANK": str(r)} for r in range(processes)]
    check_all(as_processes(processes, case, library.path, environment))


def test_a_process_that_dies_before_it_meets(
    machine: Any, library: Any, sizes_for: Any, processes: int
) -> None:
    if processes == 1:
        pytest.skip("there is nobody else")
    case = {"sizes": sizes_for(processes), "devices": machine.devices, "timeout_ms": 1500}
    began = time.monotonic()
    first, *_ = as_processes(processes, case | {"dies_before_meeting": processes - 1}, library.path)
    assert first.returncode == 1
    assert "TIMEOUT: rank 0 waited 1500 ms" in first.stderr
    assert time.monotonic() - began < 60


def test_a_process_that_dies_in_a_run(machine: Any, library: Any, sizes_for: Any, processes: int) -> None:
    if processes == 1 or not KERNEL["communicates"]:
        pytest.skip("nobody waits for anybody")
    dies = 0 if KERNEL["gather"] else processes - 1  # one with rows, where rows are waited for
    case = {
        "sizes": sizes_for(processes, 2 * processes),
        "devices": machine.devices,
        "runs": 4,
        "timeout_ms": 1500,
        "dies_in_run": [dies, 2],
    }
    ended = as_processes(processes, case, library.path)
    assert ended[dies].returncode < 0
    for rank, process in enumerate(ended):
        if rank == dies:
            continue
        assert process.returncode == 1
        assert f"TIMEOUT: rank {rank}, SM" in process.stderr, process.stderr
        assert f"rank {dies}" in process.stderr
