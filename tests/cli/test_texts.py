"""The words of the command line: summaries, plurals, and figures that two commands both print."""

import json
from pathlib import Path

import pytest

from kgen.cli.output import counted
from tests.cli.process import kgen, one_sentence


def test_summaries_fit_80_columns() -> None:
    done = kgen("--help", COLUMNS="80")
    commands = done.stdout.partition("Commands:\n")[2].splitlines()
    assert commands
    for line in commands:
        assert len(line) <= 80
        assert line.endswith(".")
        assert not line.endswith("...")


def test_one_is_singular() -> None:
    assert [counted(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_one_file_is_written(tmp_path: Path) -> None:
    project = tmp_path / "tiny"
    kgen("generate", "tiny", "-o", project)
    (project / "src" / "plan.hpp").unlink()
    assert f"{project}: 1 file written, " in kgen("generate", "tiny", "-o", project).stderr


def test_check_and_explain_count_the_same_events() -> None:
    events = json.loads(kgen("explain", "tiny", "--json").stdout)["events"]
    text = f"{events} events, the start event counted"
    assert kgen("check", "tiny").stderr.endswith(f", {text}\n")
    assert text in kgen("explain", "tiny").stdout


def test_explain_names_the_sizes_that_it_was_asked_for() -> None:
    more = ("--batch", "2", "--workers", "8")
    assert "tiny: batch 2, context 96, rows 16, workers 8" in kgen("explain", "tiny", *more).stdout
    runtime = json.loads(kgen("explain", "tiny", "--json", *more).stdout)["runtime"]
    sizes = {"batch": 2, "context": 96, "kv_page": 16, "rows": 16, "workers": 8}
    assert runtime == sizes | {"worker": "auto", "pipelining": True, "attention": "auto"}


@pytest.mark.parametrize("command", [["pack", "-w", "x"], ["run", "-p", "x"], ["trace"]])
def test_the_project_of_a_kernel_has_no_weights(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "kernel.json").write_text('{"name": "small"}')
    (tmp_path / "CMakePresets.json").write_text("{}")
    name, *more = command
    sentence = f"{tmp_path} is the project of a kernel, and this is for models"
    assert one_sentence(kgen(name, tmp_path, *more), 2) == sentence


@pytest.mark.parametrize(
    ("code", "command"),
    [
        (3, ["build"]),
        (3, ["test"]),
        (3, ["trace"]),
        (3, ["bench"]),
        (2, ["pack", "-w", "x"]),
        (2, ["run", "-p", "x"]),
    ],
)
def test_no_project_is_said_in_one_way(code: int, command: list[str], tmp_path: Path) -> None:
    name, *more = command
    sentence = f"{tmp_path} is not a generated project; `kgen generate SPEC -o {tmp_path}` makes one"
    assert one_sentence(kgen(name, tmp_path, *more), code) == sentence
