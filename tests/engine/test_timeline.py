"""The project's tests pass with a library that records a timeline, which they then look at."""

from __future__ import annotations

from pathlib import Path

from kgen.toolchain.build import build_project

from .test_harness import harness


def test_with_a_timeline(project: Path) -> None:
    library = build_project(project, "host-timeline") / "libtiny.so"
    code, output = harness(project, library, "-rs")
    assert code == 0, output
    assert "built without a timeline" not in output


def test_without_a_timeline(project: Path, host_build: tuple[Path, str]) -> None:
    code, output = harness(project, host_build[0], "-rs", "-k", "test_timeline")
    assert code == 0, output
    assert "built with a timeline" not in output
