"""What this machine can build and run, and what to install for the rest."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

from kgen.toolchain.cuda_wheels import GET_WHEELS
from kgen.toolchain.find import OLDEST_CUDA, Tool, find_cmake, find_cxx, find_ninja, find_nvcc, is_recent_nvcc
from kgen.toolchain.gpu import Gpu, find_gpus, runs_projects

_PROBE = """\
#include <atomic>
#include <concepts>
int value;
std::atomic_ref<int> reference(value);
"""
_PROBE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked for."""

    name: str
    ok: bool
    found: str  # what there is, "" for nothing
    remedy: str  # what to do when it is not ok
    target: str  # which target needs it: host, cuda or gpu


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """All checks, and what follows from them."""

    checks: tuple[Check, ...]

    def can(self, *targets: str) -> bool:
        """Whether everything that these targets need is there."""
        return all(check.ok for check in self.checks if check.target in targets)

    @property
    def host(self) -> bool:
        """Projects can be built and run on the CPU."""
        return self.can("host")

    @property
    def cuda_build(self) -> bool:
        """Projects can be compiled for GPUs."""
        return self.can("host", "cuda")

    @property
    def cuda_run(self) -> bool:
        """Projects can be compiled for GPUs and run on one here."""
        return self.can("host", "cuda", "gpu")

    def to_json(self) -> dict[str, Any]:
        """The report for a machine."""
        return {
            "host": self.host,
            "cuda_build": self.cuda_build,
            "cuda_run": self.cuda_run,
            "checks": [asdict(check) for check in self.checks],
        }


def diagnose() -> DoctorReport:
    """Look for every tool and GPU."""
    return DoctorReport(
        (
            Check("Python", True, f"{platform.python_version()} ({sys.executable})", "", "host"),
            _check_cxx(find_cxx()),
            _check_tool("CMake", find_cmake(), "pip install cmake"),
            _check_tool("Ninja", find_ninja(), "pip install ninja"),
            _check_nvcc(find_nvcc()),
            _check_gpus(find_gpus()),
        )
    )


def _describe(tool: Tool) -> str:
    return f"{tool.name} {tool.version} ({tool.path}, {tool.origin})"


def _check_tool(name: str, tool: Tool | None, remedy: str) -> Check:
    return Check(name, tool is not None, _describe(tool) if tool else "", "" if tool else remedy, "host")


def _check_cxx(tool: Tool | None) -> Check:
    name = "C++20 compiler"
    if tool is None:
        return Check(name, False, "", "install one, for example apt-get install g++, or set CXX", "host")
    if not _compiles_cxx20(tool):
        remedy = "it does not compile C++20: install g++ 11, clang++ 15 or newer, or set CXX to one"
        return Check(name, False, _describe(tool), remedy, "host")
    return Check(name, True, _describe(tool), "", "host")


def _compiles_cxx20(tool: Tool) -> bool:
    try:
        result = subprocess.run(
            [tool.path, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"],
            input=_PROBE,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def _check_nvcc(tool: Tool | None) -> Check:
    name = "CUDA compiler"
    remedy = f"{GET_WHEELS} brings the CUDA 13.0 compiler; or set CUDACXX to an nvcc"
    if tool is None:
        return Check(name, False, "", remedy, "cuda")
    if not is_recent_nvcc(tool):
        wanted = ".".join(map(str, OLDEST_CUDA))
        return Check(name, False, _describe(tool), f"CUDA {wanted} or newer is needed: {remedy}", "cuda")
    return Check(name, True, _describe(tool), "", "cuda")


def _check_gpus(gpus: list[Gpu]) -> Check:
    if not gpus:
        remedy = "no NVIDIA driver, or no GPU visible to it: projects built for cuda run elsewhere"
        return Check("GPU", False, "", remedy, "gpu")
    texts = (f"{gpu.name} (sm_{gpu.capability[0]}{gpu.capability[1]}, {gpu.sms} SMs)" for gpu in gpus)
    fit = any(runs_projects(gpu) for gpu in gpus)
    return Check("GPU", fit, ", ".join(texts), "" if fit else "sm_80 or newer is needed", "gpu")
