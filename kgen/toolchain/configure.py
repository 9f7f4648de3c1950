"""The CMake command that configures a build folder, and leaves one that is configured as it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kgen.toolchain.cuda_wheels import GET_WHEELS
from kgen.toolchain.find import (
    Tool,
    ToolchainError,
    find_cmake,
    find_cxx,
    find_ninja,
    find_nvcc,
    is_recent_nvcc,
)
from kgen.toolchain.gpu import Gpu, find_gpus, runs_projects

_ASKED = (("CXX", "CMAKE_CXX_COMPILER", find_cxx), ("CUDACXX", "CMAKE_CUDA_COMPILER", find_nvcc))
# From this compute capability on, a chip has instructions of its own that only its "a" target may use.
_FIRST_WITH_OWN_TARGET = (9, 0)


def configure_command(project: Path, preset: str, folder: Path) -> list[str | Path]:
    """`cmake --preset`, with the tools that kgen found where the folder is new or cannot be used any more.

    CMake forgets what a preset says when a compiler is changed in a configured folder, so the tools are only
    given together with --fresh. Raises ToolchainError for a tool that is missing.
    """
    cuda = preset.startswith("cuda")
    command: list[str | Path] = [needed_cmake().path, "--preset", preset]
    if not _usable(read_cache(folder), project, cuda):
        command += ["--fresh", "-G", "Ninja"]
        command += [f"-D{name}={path}" for name, path in _tools(cuda).items()]
    architectures = os.environ.get("CUDAARCHS") or architectures_of(find_gpus())
    if cuda and architectures:
        command.append(f"-DCMAKE_CUDA_ARCHITECTURES={architectures}")
    return command


def needed_cmake() -> Tool:
    """CMake, or a ToolchainError."""
    return _need(find_cmake(), "CMake", "pip install cmake")


def architectures_of(gpus: list[Gpu]) -> str:
    """CMAKE_CUDA_ARCHITECTURES for the GPUs, such as 90a-real; "" where none can run a project."""
    targets = {gpu.capability for gpu in gpus if runs_projects(gpu)}
    names = (f"{a}{b}{'a' if (a, b) >= _FIRST_WITH_OWN_TARGET else ''}-real" for a, b in sorted(targets))
    return ";".join(names)


def read_cache(folder: Path) -> dict[str, str]:
    """The entries of a folder's CMakeCache.txt; empty where it is not configured."""
    try:
        text = (folder / "CMakeCache.txt").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    entries = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        if colon and not line.startswith(("#", "//")):
            entries[name] = rest.partition("=")[2]
    return entries


def _usable(cache: Mapping[str, str], project: Path, cuda: bool) -> bool:
    """Whether a folder was configured here, with tools that are still there and that the user still wants."""
    if cache.get("CMAKE_HOME_DIRECTORY") != str(project.resolve()):
        return False
    needed = {"CMAKE_CXX_COMPILER", "CMAKE_MAKE_PROGRAM"} | ({"CMAKE_CUDA_COMPILER"} if cuda else set())
    if not all(Path(cache.get(name, "")).is_file() for name in needed):
        return False
    for variable, name, find in _ASKED:
        if variable in os.environ and name in cache:
            tool = find()
            if tool is None or str(tool.path) != cache[name]:
                return False
    return True


def _tools(cuda: bool) -> dict[str, Path]:
    cxx = _need(find_cxx(), "a C++20 compiler", "apt-get install g++, or set CXX").path
    ninja = _need(find_ninja(), "Ninja", "pip install ninja").path
    tools = {"CMAKE_CXX_COMPILER": cxx, "CMAKE_MAKE_PROGRAM": ninja}
    if cuda:
        nvcc = _need(find_nvcc(), "nvcc", f"{GET_WHEELS}, or set CUDACXX to a CUDA 13 nvcc")
        if not is_recent_nvcc(nvcc):
            raise ToolchainError(f"{nvcc.path} is CUDA {nvcc.version}, which is too old: {GET_WHEELS}")
        tools |= {"CMAKE_CUDA_COMPILER": nvcc.path, "CMAKE_CUDA_HOST_COMPILER": cxx}
    return tools


def _need(tool: Tool | None, what: str, remedy: str) -> Tool:
    if tool is None:
        raise ToolchainError(f"{what} was not found: {remedy} (`kgen doctor` shows what there is)")
    return tool
