"""The harness that a project carries passes, also under ThreadSanitizer, which sees a missing order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kgen.toolchain.build import build_project
from kgen.toolchain.find import find_cxx


def harness(project: Path, library: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(project / "tests")],
        env=os.environ | {"TINY_LIBRARY": str(library)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def sanitizer() -> str:
    cxx = find_cxx()
    assert cxx is not None
    return subprocess.check_output([cxx.path, "-print-file-name=libtsan.so"], text=True).strip()


def test_host(project: Path, host_build: tuple[Path, str]) -> None:
    code, output = harness(project, host_build[0])
    assert code == 0, output
    assert " passed" in output


def test_weights_over_the_limit_are_not_made(project: Path, host_build: tuple[Path, str]) -> None:
    code, output = harness(project, host_build[0], "-k", "test_full_context", TINY_TEST_MAX_MB="0.01")
    assert code == 0, output
    assert "exceed TINY_TEST_MAX_MB=0.01" in output.replace("\n", " ")


def test_models_have_the_workers_that_are_asked_for(project: Path, host_build: tuple[Path, str]) -> None:
    code, output = harness(project, host_build[0], "-k", "test_info", TINY_TEST_WORKERS="3")
    assert code == 0, output
    code, output = harness(project, host_build[0], "-k", "test_info", TINY_TEST_WORKERS="1000000")
    assert code == 1
    assert "options.workers is 1000000" in output


@pytest.mark.slow
def test_thread_sanitizer(project: Path) -> None:
    library = build_project(project, "host-tsan") / "libtiny.so"
    code, output = harness(project, library, "-s", LD_PRELOAD=sanitizer())
    assert "ThreadSanitizer" not in output, output
    assert code == 0, output


@pytest.mark.slow
def test_thread_sanitizer_sees_a_missing_order(variant: Callable[[str, str, str], Path]) -> None:
    """With event counters that order nothing there must be a report, or the test above shows nothing."""
    project = variant(
        "include/pk/platform/atomic.hpp",
        "detail::shared(p).fetch_add(value, std::memory_order_acq_rel)",
        "detail::shared(p).fetch_add(value, std::memory_order_relaxed)",
    )
    library = build_project(project, "host-tsan") / "libtiny.so"
    first_report = {"LD_PRELOAD": sanitizer(), "TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}
    code, output = harness(project, library, "-s", "-k", "test_worker_counts", **first_report)
    assert code == 66
    assert "WARNING: ThreadSanitizer: data race" in output
