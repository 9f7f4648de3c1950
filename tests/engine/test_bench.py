"""The project's own bench as a program: what it prints and writes, what it cuts, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

QUICK = ("--repeats", 2, "--workers", 2, "--no-torch")


def bench(project: Path, library: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, project / "bench" / "decode.py", *arguments]
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"TINY_LIBRARY": str(library), "KGEN_COMMIT": "abc"},
    )


def test_cases_are_measured_and_checked(
    project: Path, host_build: tuple[Path, str], weights: Path, tmp_path: Path
) -> None:
    """A case that is larger than the tiny model takes is cut."""
    more = ("--case", "1x20", "--case", "4x40", "16x1024", "--steps", 100, "--weights", weights)
    done = bench(project, host_build[0], *more, *QUICK, "--json", tmp_path / "figures.json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "16x1024: measured at batch 4, context 73, which this model takes\n"
    report = json.loads((tmp_path / "figures.json").read_text())
    rows = report["cases"]
    assert [(row["batch"], row["context"]) for row in rows] == [(1, 20), (4, 40), (4, 73)]
    for row in rows:
        assert row["step_us"] is None or row["step_us"] > 0
        assert row["logits_correct"]
        assert 0 < row["logits_error"] <= 1.5 * row["logits_error_bf16"] < 0.02
        assert row["changed"] == row["endurance"]["changed"] == 0
        assert row["ceiling_share"] is None
    assert [row["sequences_checked"] for row in rows] == [1, 2, 2]
    assert [(row["endurance"]["steps"], row["endurance"]["calls"]) for row in rows] == [(100, 10)] * 3
    assert (report["model"], report["cuda"], report["weights"]) == ("tiny", False, "random.weights")
    assert report["about"]["commit"] == "abc"
    assert list(report["missing"]) == ["read ceiling"]
    lines = done.stdout.splitlines()
    assert lines[0] == "tiny on host, 2 workers"
    assert [line.split()[:2] for line in lines[2:5]] == [["1", "20"], ["4", "40"], ["4", "73"]]
    assert len(lines) == 2 + 3 + 3 + 1


def test_wrong_logits_are_exit_1(
    variant: Callable[[str, str, str], Path], host_build: tuple[Path, str], weights: Path
) -> None:
    """Here the reference is: it takes half of each embedding."""
    project = variant("tests/reference.py", 't["table"][ids]', '0.5 * t["table"][ids]')
    done = bench(project, host_build[0], *QUICK, "--case", "2x20", "--weights", weights)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == "batch 2, context 20: WRONG OUTPUT"


def test_failures_are_one_sentence(
    project: Path, host_build: tuple[Path, str], weights: Path, tmp_path: Path
) -> None:
    library = host_build[0]
    damaged = tmp_path / "damaged.weights"
    damaged.write_bytes(weights.read_bytes()[:5000])
    for done in (
        bench(project, library, "--weights", tmp_path / "none"),
        bench(project, library, "--weights", damaged),
        bench(project, tmp_path / "none.so"),
        bench(project, library, "--json", tmp_path / "none" / "figures.json"),
    ):
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stdout == ""
    assert "is less than 2" in bench(project, library, "--tokens", 1).stderr
    for case in ("4", "0x5", "1x", "x5", "1x2x3"):
        assert f"'{case}' is not BATCHxCONTEXT" in bench(project, library, "--case", case).stderr


def test_every_option_has_help(project: Path) -> None:
    options = bench(project, project, "--help").stdout.partition("options:")[2]
    names = ("--case", "--weights", "--tokens", "--repeats", "--steps", "--workers", "--no-torch", "--json")
    for name, following in zip(names, (*names[1:], ""), strict=True):
        text = options.partition(f"  {name} ")[2].partition(f"  {following} " if following else "\0")[0]
        assert len(text.split()) > 4, name
