"""Finds the library, and over which ranks it can be tested here.

{NAME}_LIBRARY names the library (else build/cuda where there is a driver, else build/host);
{NAME}_TEST_PRODUCTS is the number of multiplications of a run, in millions: tests that need more are skipped.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

IS_TSAN = "tsan" in os.environ.get("LD_PRELOAD", "")
if IS_TSAN:
    # NumPy's own threads are not instrumented, so that what they do would look like races.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

_TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(_TESTS.parent / "python"), str(_TESTS)]

from driver import Driver  # noqa: E402
from memory import Memory  # noqa: E402
from problem import make_sizes, products  # noqa: E402
from project import KERNEL, VARIABLES  # noqa: E402
from ranks import as_threads, new_rendezvous, open_kernel  # noqa: E402

_HOST_SMS = 2


@dataclass(frozen=True)
class Machine:
    """Where the library runs. devices 0: the host."""

    devices: int

    def device(self, rank: int) -> int | None:
        return rank % self.devices if self.devices else None

    def options(self, rank: int) -> dict[str, Any]:
        return {"device": self.device(rank)} if self.devices else {"sms": _HOST_SMS}

    def memory(self, rank: int) -> Memory:
        return Memory(self.device(rank))


@pytest.fixture(scope="session")
def binding() -> ModuleType:
    """The Python binding of this project."""
    return importlib.import_module(KERNEL["name"])


@pytest.fixture(scope="session")
def library(binding: ModuleType) -> Any:
    """The library under test. Sums in the network are not run on GPUs: README.md says why."""
    path = binding.find_library()
    if KERNEL["in_network"] and b".nv_fatbin" in path.read_bytes():
        pytest.exit(
            f"{path} adds by NVLink multicast, which these tests do not run on GPUs; build the host preset, "
            f"and name its library in {VARIABLES}_LIBRARY",
            returncode=2,
        )
    return binding.Library(path)


@pytest.fixture(scope="session")
def machine(binding: ModuleType, library: Any) -> Machine:
    """Whether the library runs on GPUs, and how many there are. Without one that it can use, no test runs."""
    least = KERNEL["world"]["lo"]
    rendezvous = new_rendezvous()

    def is_cuda(rank: int) -> bool:
        with open_kernel(binding, library, rank, least, rendezvous) as kernel:
            return bool(kernel.info.cuda)

    try:
        return Machine(Driver().devices() if as_threads(least, is_cuda)[0] else 0)
    except binding.KernelError as error:
        if error.status == binding.Status.UNSUPPORTED_DEVICE:
            pytest.exit(f"{library.path} needs a GPU that it can use: {error.sentence}", returncode=2)
        raise


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`world`: ranks to test with; more than there are GPUs share them. `some_world`: one such number."""
    worlds = [w for w in (1, 2, 3, 4) if KERNEL["world"]["lo"] <= w <= KERNEL["world"]["hi"]]
    worlds = worlds or [KERNEL["world"]["lo"]]
    if "some_world" in metafunc.fixturenames:
        metafunc.parametrize("some_world", [2 if 2 in worlds else worlds[0]])
    if "world" in metafunc.fixturenames:
        metafunc.parametrize("world", worlds)


@pytest.fixture(scope="session")
def sizes_for(machine: Machine) -> Any:
    """Sizes close to those wanted; skips where they would take too long."""
    default = 20000 if machine.devices else 600 if IS_TSAN else 6000
    most = int(os.environ.get(f"{VARIABLES}_TEST_PRODUCTS", default)) * 1_000_000

    def sizes(world: int, m: int = 129, n: int = 264, k: int = 136) -> dict[str, int]:
        found = make_sizes(world, m, n, k)
        if 0 in found.values():
            pytest.skip(f"no size of the kernel is right for {world} ranks")
        if products(found, world) > most:
            needed = -(-products(found, world) // 1_000_000)
            pytest.skip(f"{needed} million products exceed {VARIABLES}_TEST_PRODUCTS={most // 1_000_000}")
        return found

    return sizes
