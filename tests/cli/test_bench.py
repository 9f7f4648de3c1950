"""`kgen bench` on the host."""

import json
from pathlib import Path

import pytest

from tests.cli.process import kgen, one_sentence


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "tiny"
    assert kgen("generate", "tiny", "-o", folder).returncode == 0
    return folder


def test_figures_as_a_table_and_as_json(tiny: Path) -> None:
    """The project is built on the way."""
    cases = ("--case", "1x20", "--case", "4x30", "--preset", "host", "--no-torch", "--steps", "40")
    table = kgen("bench", tiny, *cases)
    assert (table.returncode, table.stderr) == (0, "")
    assert [line.split()[:2] for line in table.stdout.splitlines()[2:4]] == [["1", "20"], ["4", "30"]]
    report = json.loads(kgen("bench", tiny, *cases, "--json").stdout)
    assert [(row["batch"], row["context"]) for row in report["cases"]] == [(1, 20), (4, 30)]
    assert all(row["logits_correct"] and row["endurance"]["steps"] == 40 for row in report["cases"])


def test_wrong_output_is_1(tiny: Path, tmp_path: Path) -> None:
    """Of the reference, here: the check cannot tell which side is wrong."""
    project = tmp_path / "tiny"
    assert kgen("generate", "tiny", "-o", project).returncode == 0
    reference = project / "tests" / "reference.py"
    reference.write_text(reference.read_text().replace('t["table"][ids]', '0.5 * t["table"][ids]'))
    done = kgen("bench", project, "--case", "1x20", "--preset", "host", "--no-torch", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["cases"][0]["logits_correct"] is False


def test_weights_that_are_not_there(tiny: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    done = kgen("bench", tiny, "--preset", "host", "--weights", missing, "--no-torch")
    assert str(missing) in one_sentence(done, 2)


def test_a_case_that_is_none(tiny: Path) -> None:
    done = kgen("bench", tiny, "--case", "1x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'1x' is not BATCHxCONTEXT, such as 4x1024" in done.stderr
