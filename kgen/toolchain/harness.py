"""Run the tests that a generated project carries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kgen.toolchain.build import preset_folder, read_project
from kgen.toolchain.find import ToolchainError, find_cxx

NOT_RUN = (2, 4, 5)  # of pytest: stopped, wrong usage, no test found


def run_harness(project: Path, preset: str, arguments: Sequence[str] = ()) -> int:
    """Run the project's pytest harness against the library that `preset` built.

    Returns the exit code: 0 when every test passed, one of NOT_RUN when pytest has said why they could not be
    run, else another. The tests print as pytest does. `arguments` go to pytest. Raises ToolchainError when
    there is no library.
    """
    environment = os.environ | library_variable(project, preset)
    command = [sys.executable, "-m", "pytest", str(project.resolve() / "tests")]
    if preset == "host-tsan":
        # NumPy's own threads are not instrumented: what they do would be reported as races.
        environment |= {"LD_PRELOAD": str(_thread_sanitizer()), "OPENBLAS_NUM_THREADS": "1"}
        suppressions = project.resolve() / "tests" / "tsan.supp"
        if suppressions.is_file():
            given = os.environ.get("TSAN_OPTIONS", "")
            environment["TSAN_OPTIONS"] = f"{given} suppressions={suppressions}".strip()
        command.append("--capture=sys")  # the sanitizer's reports bypass Python; they must not be captured
    command += arguments
    return subprocess.run(command, cwd=project, env=environment, check=False).returncode


def library_variable(project: Path, preset: str) -> dict[str, str]:
    """The variable that tells the project's Python code to use the library that `preset` built.

    Raises ToolchainError when there is no library.
    """
    folder = preset_folder(project, preset)
    name = read_project(project)["name"]
    library = folder / f"lib{name}.so"
    if not library.is_file():
        raise ToolchainError(f"{library} is not there; `kgen build {project} --preset {preset}` makes it")
    return {f"{name.upper()}_LIBRARY": str(library)}


def _thread_sanitizer() -> Path:
    """The runtime that must be in the process before Python loads a library built with ThreadSanitizer."""
    cxx = find_cxx()
    if cxx is not None:
        answer = subprocess.check_output([cxx.path, "-print-file-name=libtsan.so"], text=True).strip()
        if os.path.isabs(answer):
            return Path(answer).resolve()
    raise ToolchainError("the C++ compiler has no libtsan.so: install it, for example with g++")
