"""Errors of specs and of usage: what is printed where, and the exit codes."""

import json
from pathlib import Path

import pytest

from tests.cli.process import ROOT, kgen


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "tiny", "-o", ""],
        ["graph", "tiny", "--out", ""],
        ["pack", "tiny", "-w", "weights", "-o", ""],
        ["pack", "tiny", "-w", ""],
        ["run", "tiny", "-w", ""],
        ["run", "tiny", "--tokenizer", ""],
        ["build", ""],
    ],
)
def test_an_empty_path_is_wrong_usage(arguments: list[str], tmp_path: Path) -> None:
    done = kgen(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a path cannot be empty" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_check_names_the_place_of_an_error(tmp_path: Path) -> None:
    text = (ROOT / "specs" / "models" / "tiny.yaml").read_text()
    (tmp_path / "bad.yaml").write_text(text.replace("op: logits", "op: logist"))
    done = kgen("check", "bad.yaml", cwd=tmp_path)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "op: logits" in row)
    assert done.returncode == 2
    assert done.stderr.startswith(f"bad.yaml:{line}:")
    assert "logits" in done.stderr


def test_check_as_json(tmp_path: Path) -> None:
    done = kgen("check", "tiny", "--json")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, [], "")
    text = (ROOT / "specs" / "models" / "tiny.yaml").read_text()
    rows = text.splitlines()
    line = next(i for i, row in enumerate(rows, 1) if "op: logits" in row)
    col = rows[line - 1].index("logits") + 1
    faults = {
        # One that the reader of the spec finds, and one of the compiler.
        ("op: logits", "op: logist"): ("unknown operator 'logist'", "logits"),
        ("vocab: 331", "vocab: 9000000"): ("logits: 70313 tasks, but an operator has at most 16384", None),
    }
    for (old, new), (message, hint) in faults.items():
        (tmp_path / "bad.yaml").write_text(text.replace(old, new))
        done = kgen("check", "--json", "bad.yaml", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (2, "")
        (found,) = json.loads(done.stdout)
        assert (found["file"], found["line"], found["col"]) == ("bad.yaml", line, col)
        assert (found["end_col"], found["severity"]) == (col + 6, "error")
        assert (found["message"], found["hint"]) == (message, hint)


@pytest.mark.parametrize("command", ["check", "generate", "explain", "graph"])
def test_an_error_of_the_compiler_has_a_place(command: str, tmp_path: Path) -> None:
    text = (ROOT / "specs" / "models" / "tiny.yaml").read_text()
    (tmp_path / "bad.yaml").write_text(text.replace("vocab: 331", "vocab: 9000000"))
    line, row = next((i, row) for i, row in enumerate(text.splitlines(), 1) if "op: logits" in row)
    done = kgen(command, "bad.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"bad.yaml:{line}:10: error: logits: 70313 tasks, but an operator has at most 16384",
        "   |",
        f"{line} | {row}",
        "   |          ^^^^^^",
    ]
