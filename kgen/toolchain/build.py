"""Configure, build and test a generated project by CMake preset."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kgen.paths import no_model, no_project
from kgen.toolchain.configure import configure_command, needed_cmake
from kgen.toolchain.find import ToolchainError, find_nvcc, is_recent_nvcc
from kgen.toolchain.gpu import find_gpus, runs_projects
from kgen.toolchain.kernel_report import save_report

Progress = Callable[[str], None]
AUTO = "auto"
_MODEL, _KERNEL = "model.json", "kernel.json"
_TAIL_LINES = 40
# How g++, clang++, nvcc, ptxas, linkers and CMake begin what they fail for.
_ERROR = re.compile(r"\berror *:|\berror #|^CMake Error|undefined reference|^ninja: error")


def choose_preset(preset: str) -> str:
    """`auto` becomes cuda where it can be built and run, else host; any other name is kept."""
    if preset != AUTO:
        return preset
    if not any(runs_projects(gpu) for gpu in find_gpus()):
        return "host"
    nvcc = find_nvcc()
    return "cuda" if nvcc is not None and is_recent_nvcc(nvcc) else "host"


def build_project(
    project: Path, preset: str, *, jobs: int | None = None, progress: Progress | None = None
) -> Path:
    """Configure and build; returns the build folder. A ToolchainError says how a command failed."""
    folder = preset_folder(project, preset)
    run_tool(configure_command(project, preset, folder), cwd=project, progress=progress)
    parallel = ["--parallel", str(jobs or os.cpu_count() or 1)]
    lines = run_tool([needed_cmake().path, "--build", folder, *parallel], cwd=project, progress=progress)
    save_report(folder, lines)
    return folder


def check_project(project: Path) -> None:
    """Raises ToolchainError unless `project` is a folder that kgen generated."""
    if _about(project) is None or not (project / "CMakePresets.json").is_file():
        raise ToolchainError(no_project(project))


def read_project(project: Path) -> dict[str, Any]:
    """The contents of model.json or kernel.json, whichever there is; at least `name` is in it.

    Raises ToolchainError unless it is that of a generated project.
    """
    check_project(project)
    file = _about(project)
    assert file is not None
    try:
        contents = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(contents["name"], str):
            return dict(contents)
        found = f"its name is {contents['name']!r}"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        found = repr(error)
    raise ToolchainError(f"{file}: not the {file.name} of a generated project: {found}; generate it again")


def read_model(project: Path) -> dict[str, Any]:
    """The contents of model.json. Raises ToolchainError unless `project` is the generated one of a model."""
    contents = read_project(project)
    if not (project / _MODEL).is_file():
        raise ToolchainError(no_model(project))
    return contents


def _about(project: Path) -> Path | None:
    """The file that says what a project is; None where there is none."""
    return next((file for name in (_MODEL, _KERNEL) if (file := project / name).is_file()), None)


def is_kernel(project: Path) -> bool:
    """Whether a project is that of a kernel, not of a model. Raises ToolchainError unless it is either."""
    check_project(project)
    file = _about(project)
    return file is not None and file.name == _KERNEL


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
) -> list[str]:
    """Run a command, its lines passed to `progress`; returns them. A ToolchainError has those that matter."""
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
    return lines


def failing_part(lines: Sequence[str]) -> list[str]:
    """The lines to show of a failed command: from its first error on where it names one, else its end."""
    first = next((i for i, line in enumerate(lines) if _ERROR.search(line)), None)
    if first is not None:
        return list(lines[first : first + _TAIL_LINES])
    return list(lines[-_TAIL_LINES:])
