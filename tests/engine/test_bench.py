"""The project's own bench: what it prints, what it cuts, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgen.paths import project_templates

from .conftest import load_module

BENCH = load_module(project_templates() / "bench" / "decode.py")


def bench(project: Path, library: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, project / "bench" / "decode.py", *arguments]
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"TINY_LIBRARY": str(library)},
    )


def test_the_example_of_the_docstring(project: Path, host_build: tuple[Path, str], tmp_path: Path) -> None:
    """Its sizes are larger than the tiny model's context, to which they are cut."""
    sizes = ("--batch", 1, 8, "--prompt", 1, 128, "--tokens", 64)
    quick = ("--repeats", 1, "--workers", 2)
    done = bench(project, host_build[0], *sizes, *quick, "--json", tmp_path / "figures.json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "cut to batch 4, context 96, prompt 32, tokens 64\n"
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert [(row["batch"], row["prompt"]) for row in rows] == [(1, 1), (1, 32), (4, 1), (4, 32)]
    assert all(row["step_ms"] is None or row["step_ms"] > 0 for row in rows)
    assert len(done.stdout.splitlines()) == 2 + len(rows)


def test_failures_are_one_sentence(
    project: Path, host_build: tuple[Path, str], weights: Path, tmp_path: Path
) -> None:
    library = host_build[0]
    quick = ("--batch", 1, "--tokens", 2, "--repeats", 1, "--workers", 2)
    damaged = tmp_path / "damaged.weights"
    damaged.write_bytes(weights.read_bytes()[:5000])
    for done in (
        bench(project, library, "--weights", tmp_path / "none"),
        bench(project, library, "--weights", damaged),
        bench(project, tmp_path / "none.so"),
        bench(project, library, *quick, "--json", tmp_path / "none" / "figures.json"),
    ):
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "is less than 2" in bench(project, library, "--tokens", 1).stderr


def test_every_option_has_help(project: Path) -> None:
    options = bench(project, project, "--help").stdout.partition("options:")[2]
    names = ("--weights", "--batch", "--prompt", "--tokens", "--repeats", "--workers", "--json")
    for name, following in zip(names, (*names[1:], ""), strict=True):
        text = options.partition(f"  {name} ")[2].partition(f"  {following} " if following else "\0")[0]
        assert len(text.split()) > 4, name


def run_on_clock(monkeypatch: pytest.MonkeyPatch, durations: list[float]) -> dict[str, Any]:
    """`measure` with calls that take these seconds: a first one, then three of each kind."""

    def clock() -> Iterator[float]:
        for duration in durations:
            yield 0.0
            yield duration

    monkeypatch.setattr(BENCH.time, "perf_counter", clock().__next__)
    info = SimpleNamespace(vocab=331, weight_bytes=10**9)
    model = SimpleNamespace(info=info, generate=lambda prompts, max_new_tokens: None)
    row: dict[str, Any] = BENCH.measure(model, 2, 3, 11, 3)
    return row


def test_the_quickest_calls_count(monkeypatch: pytest.MonkeyPatch) -> None:
    row = run_on_clock(monkeypatch, [9, 5, 1, 4, 2, 7, 3])
    assert (row["first_token_ms"], row["step_ms"]) == (1000, 100)
    assert (row["tokens_per_second"], row["weights_gb_per_second"]) == (20, 10)


def test_a_difference_that_is_not_positive_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    row = run_on_clock(monkeypatch, [9, 5, 3, 4, 2, 7, 3])
    monkeypatch.undo()
    assert [row[key] for key in ("step_ms", "tokens_per_second", "weights_gb_per_second")] == [None] * 3
    assert [BENCH.figure(value, 2) for value in (None, 1.25)] == ["-", "1.25"]
