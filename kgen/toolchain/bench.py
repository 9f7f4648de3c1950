"""Run the bench that a generated project carries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgen.toolchain.build import is_kernel
from kgen.toolchain.harness import library_variable


def run_bench(
    project: Path, preset: str, arguments: Sequence[str] = (), *, table: bool = True
) -> tuple[int, dict[str, Any] | None]:
    """Run the project's bench against the library that `preset` built, with `arguments`.

    Returns its exit code (0: correct, 1: wrong output, 2: it could not be run, and has said why) and its
    report, None where it made none. The table goes to standard output; without `table` nothing does.
    Raises ToolchainError when there is no library.
    """
    environment = os.environ | library_variable(project, preset)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            [sys.executable, str(_bench(project)), *arguments, "--json", str(report)],
            env=environment,
            stdout=None if table else subprocess.DEVNULL,
            check=False,
        )
        text = report.read_text(encoding="utf-8") if report.is_file() else ""
    return done.returncode, json.loads(text) if text else None


def can_bench_kernel(project: Path, arguments: Sequence[str] = ()) -> bool:
    """Whether the bench of a kernel's project would run here with `arguments`; it has said why if not.

    Needs no library, so that nobody waits for a build in vain.
    """
    command = [sys.executable, str(_bench(project)), *arguments, "--check"]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def _bench(project: Path) -> Path:
    return project.resolve() / "bench" / ("overlap.py" if is_kernel(project) else "decode.py")
