"""Configure, build and test a generated project by CMake preset."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from kgen.toolchain.find import Tool, ToolchainError, find_cmake, find_cxx, find_ninja, find_nvcc
from kgen.toolchain.gpu import find_gpus

Progress = Callable[[str], None]
AUTO = "auto"
_TAIL_LINES = 40
# How g++, clang++, nvcc, ptxas, linkers and CMake begin what they fail for.
_ERROR = re.compile(r"\berror *:|\berror #|^CMake Error|undefined reference|^ninja: error")


def choose_preset(preset: str) -> str:
    """`auto` becomes cuda where there are an nvcc and a GPU, else host; any other name is kept."""
    if preset != AUTO:
        return preset
    return "cuda" if find_gpus() and find_nvcc() else "host"


def build_project(
    project: Path, preset: str, *, jobs: int | None = None, progress: Progress | None = None
) -> Path:
    """Configure and build; returns the build folder. A ToolchainError says how a command failed."""
    folder = preset_folder(project, preset)
    cmake = _need(find_cmake(), "CMake", "pip install cmake")
    cxx = _need(find_cxx(), "a C++20 compiler", "apt-get install g++, or set CXX")
    settings = {"CMAKE_CXX_COMPILER": cxx.path}
    # A folder that somebody configured by hand keeps its generator: CMake refuses another one.
    generator = _configured_generator(folder) or "Ninja"
    if generator == "Ninja":
        settings["CMAKE_MAKE_PROGRAM"] = _need(find_ninja(), "Ninja", "pip install ninja").path
    if preset.startswith("cuda"):
        nvcc = _need(find_nvcc(), "nvcc", "pip install kgen[cuda], or set CUDACXX to a CUDA 13 nvcc")
        settings |= {"CMAKE_CUDA_COMPILER": nvcc.path, "CMAKE_CUDA_HOST_COMPILER": cxx.path}
    definitions = [f"-D{name}={path}" for name, path in settings.items()]
    run_tool([cmake.path, "--preset", preset, "-G", generator, *definitions], cwd=project, progress=progress)
    parallel = ["--parallel", str(jobs or os.cpu_count() or 1)]
    run_tool([cmake.path, "--build", folder, *parallel], cwd=project, progress=progress)
    return folder


def _configured_generator(folder: Path) -> str | None:
    try:
        cache = (folder / "CMakeCache.txt").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    prefix = "CMAKE_GENERATOR:INTERNAL="
    return next((line.removeprefix(prefix) for line in cache.splitlines() if line.startswith(prefix)), None)


def check_project(project: Path) -> None:
    """Raises ToolchainError unless `project` is a folder that kgen generated."""
    if not (project / "model.json").is_file() or not (project / "CMakePresets.json").is_file():
        raise ToolchainError(
            f"{project} is not a generated project; `kgen generate SPEC -o {project}` makes one"
        )


def preset_folder(project: Path, preset: str) -> Path:
    """Where a preset builds. Raises ToolchainError for a preset that the project does not have."""
    check_project(project)
    presets = json.loads((project / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
    names = [entry["name"] for entry in presets if not entry.get("hidden")]
    if preset not in names:
        raise ToolchainError(f"{project} has no preset '{preset}', only {', '.join(names)}")
    return project.resolve() / "build" / preset


def run_tool(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    progress: Progress | None = None,
) -> None:
    """Run a command, its lines passed to `progress`. Raises ToolchainError with the lines that matter."""
    lines: list[str] = []
    try:
        with subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if progress is not None:
                    progress(lines[-1])
    except OSError as error:
        raise ToolchainError(f"cannot run {command[0]}: {error.strerror}") from error
    if process.returncode != 0:
        shown = " ".join(str(part) for part in command)
        raise ToolchainError(
            "\n".join([f"{shown}\nfailed with exit code {process.returncode}:", *failing_part(lines)])
        )


def failing_part(lines: Sequence[str]) -> list[str]:
    """The lines to show of a failed command: from its first error on where it names one, else its end."""
    first = next((i for i, line in enumerate(lines) if _ERROR.search(line)), None)
    if first is not None:
        return list(lines[first : first + _TAIL_LINES])
    return list(lines[-_TAIL_LINES:])


def _need(tool: Tool | None, what: str, remedy: str) -> Tool:
    if tool is None:
        raise ToolchainError(f"{what} was not found: {remedy} (`kgen doctor` shows what there is)")
    return tool
