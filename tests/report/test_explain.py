from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from kgen.passes.pipeline import Compilation, compile_graph
from kgen.report.explain import ExplainReport, explain, list_bytes
from tests.graphs import QWEN3_1_7B, QWEN3_8B, TINY, Model, build
from tests.passes.dags import events

KEYS = [
    *("operators", "tasks", "tasks_per_operator", "pairs", "events", "empty_tasks"),
    *("bytes_before", "bytes_after", "passes", "runtime", "worker"),
]


@pytest.fixture(scope="module")
def tiny() -> Compilation:
    return compile_graph(build(TINY))


def test_json_has_the_agreed_keys_and_the_figures_of_the_plan(tiny: Compilation) -> None:
    report = json.loads(json.dumps(explain(tiny).to_json()))
    assert list(report) == KEYS
    plan = tiny.plan
    assert report["operators"] == len(plan.ops) == 19
    assert report["tasks"] == len(plan.tasks()) == 78
    assert report["tasks_per_operator"] == 78 / 19
    assert report["events"] == len(plan.events)
    assert report["empty_tasks"] == 0
    sizes = {"batch": 2, "context": 48, "kv_page": 4, "rows": 5, "workers": 3}
    assert report["runtime"] == sizes | {"worker": "auto", "pipelining": True, "attention": "auto"}
    assert report["worker"]["on_hopper"] == "general"
    assert report["bytes_after"] == 24 * len(plan.tasks()) + 12 * len(plan.events)
    assert [p["name"] for p in report["passes"]] == [stage.name for stage in tiny.stages]
    fusion = next(p for p in report["passes"] if p["name"] == "fuse_events")
    assert report["pairs"] == fusion["events_before"] > fusion["needed"] > fusion["after_successor_fusion"]
    assert fusion["after_successor_fusion"] > fusion["after_predecessor_fusion"] == report["events"] - 1


def test_bytes_before_linearization_count_every_successor() -> None:
    # Four tasks of 24 bytes; a lists b and c, both of which list d: 4 numbers of 4 bytes.
    assert list_bytes(events("start => a; a => b c; b c => d", last="d")) == 4 * 24 + 4 * 4


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize(
    ("model", "most_events", "least_tasks", "least_per_operator", "least_ratio"),
    [(QWEN3_1_7B, 935, 8152, 35.6, 4.4), (QWEN3_8B, 1183, 13859, 47.3, 5.9)],
)
def test_big_models(
    model: Model,
    most_events: int,
    least_tasks: int,
    least_per_operator: float,
    least_ratio: float,
    batch: int,
) -> None:
    report = explain(compile_graph(build(replace(model, batch=batch))))
    assert report.events <= most_events
    assert report.tasks >= least_tasks
    assert report.tasks_per_operator >= least_per_operator
    assert report.empty_tasks <= report.tasks / 100
    assert report.bytes_before / report.bytes_after >= least_ratio


def table(report: ExplainReport) -> str:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as capture:
        console.print(report.to_table())
    return capture.get()


def test_the_table_has_a_line_for_each_pass_and_each_task_grid(tiny: Compilation) -> None:
    text = table(explain(tiny))
    for line in (
        "tiny: batch 2, context 48, rows 5, workers 3",
        "25 events, the start event counted",
        "bytes of all tasks, at most",
        "19 operators, 24 tensors",
        "78 tasks, 4.1 per operator",
        "543 pairs of tasks in order",
        "543 events, one a pair",
        "272 events needed, the others follow from them",
        "73 events after successor-set fusion",
        "24 events after predecessor-set fusion (23 pairs an event)",
        "0 empty tasks and 0 events added",
        "10 instantiations of task templates",
        "70 tasks in lists of workers, 8 through a queue of 8",
        "39 runs of tasks, weights 85.8 kB, activations 6.14 kB",
        "16 columns, the last 8",
        "1 KV head of 1 sequence",
    ):
        assert line in text
