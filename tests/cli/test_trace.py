"""`kgen trace`: from a project to a table, figures and a file for Perfetto."""

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.process import kgen, one_sentence

SMALL = ("--preset", "host", "--workers", "2", "--prompt", "3", "--batch", "2", "--tokens", "6", "-j", "2")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traced") / "tiny"
    assert kgen("generate", "tiny", "-o", folder).returncode == 0
    return folder


def test_figures_and_file(project: Path, tmp_path: Path) -> None:
    """Random weights, as there are no others."""
    out = tmp_path / "trace.json"
    done = kgen("trace", project, *SMALL, "--json", "--steps", "0", "-o", out)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["name"], report["workers"], report["dropped"], len(report["steps_ns"])) == (
        "tiny",
        2,
        0,
        6,
    )
    assert report["step_ns"] == report["steps_ns"][report["step"]] == sorted(report["steps_ns"])[2]
    assert sum(row["share"] for row in report["time"]) == pytest.approx(1)
    assert {row["activity"] for row in report["time"]} == {"task", "wait on event", "trigger", "other"}

    model = json.loads((project / "model.json").read_text())
    operators = {row["label"]: row for row in report["operators"]}
    assert (operators["layers.*.wqkv"]["operators"], operators["advance"]["tasks"]) == (2, 1)
    # Padded rows of the matrix of the logits, (heads + 2 kv_heads) * head of 2 layers.
    assert operators["logits"]["bytes"] == 331 * 96 * 2
    assert operators["layers.*.wqkv"]["bytes"] == 2 * 240 * 96 * 2
    assert ("layers.*.wo", "layers.*.ffn_norm") in {(row["after"], row["waiter"]) for row in report["edges"]}

    events = json.loads(out.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 6 + report["records"]
    names = {event["name"] for event in events}
    runs = [run for run in model["runs"] if model["ops"][run["op"]]["name"] == "layers.1.wqkv"]
    assert {f"layers.1.wqkv [{run['begin']}:{run['begin'] + run['width']}]" for run in runs} <= names
    assert "wait: advance -> next step" in names
    assert (
        done.stderr == f"{out} is written, {report['records']} records in all; open it in ui.perfetto.dev\n"
    )


@pytest.mark.parametrize(
    ("option", "number", "said"),
    [
        ("--batch", "9", "a batch of 9, but the model is for 1..4"),
        ("--batch", "100000000", "a batch of 100000000, but the model is for 1.."),
        ("--prompt", "1000000000", "a prompt of 1000000000 tokens, but the model's context is 1.."),
        ("--tokens", "4294967312", "an answer of 4294967312 tokens, but the model's context is 1.."),
    ],
)
def test_more_than_the_model_was_made_for(project: Path, option: str, number: str, said: str) -> None:
    done = kgen("trace", project, *SMALL, option, number)
    assert said in one_sentence(done, 2)


@pytest.mark.parametrize("text", ["{", "", "[]", "{}"])
def test_a_damaged_description(project: Path, tmp_path: Path, text: str) -> None:
    copy = tmp_path / "damaged"
    copy.mkdir()
    (copy / "CMakePresets.json").write_bytes((project / "CMakePresets.json").read_bytes())
    (copy / "model.json").write_text(text)
    done = kgen("trace", copy, "--preset", "host")
    assert done.returncode != 0
    assert "not the model.json of a generated project" in one_sentence(done, done.returncode)


def test_table_and_default_file(project: Path) -> None:
    done = kgen("trace", project, *SMALL, "--steps", "2")
    assert done.returncode == 0, done.stderr
    for title in ("tiny, 2 workers; of 6 steps the median one", "operators, ", "slowest edges, "):
        assert title in done.stdout
    trace = json.loads(gzip.decompress((project / "build" / "trace.json.gz").read_bytes()))
    numbers = {event["args"]["step"] for event in trace["traceEvents"] if event.get("cat") == "task"}
    assert len(numbers) == 2


def test_a_full_buffer_is_said(project: Path) -> None:
    done = kgen("trace", project, *SMALL, "--records", "2000")
    assert done.returncode == 0, done.stderr
    assert " did not fit; --records makes room\n" in done.stderr
    sentence = one_sentence(kgen("trace", project, *SMALL, "--records", "10"), 2)
    assert sentence.startswith("no step was recorded as a whole: ")


def test_a_project_of_an_older_kgen(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    kgen("generate", "tiny", "-o", folder)
    model = json.loads((folder / "model.json").read_text())
    del model["runs"]
    (folder / "model.json").write_text(json.dumps(model))
    assert one_sentence(kgen("trace", folder), 2).endswith("was written by an older kgen; generate it again")
