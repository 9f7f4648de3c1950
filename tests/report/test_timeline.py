"""Figures of a call made by hand: two workers, five tasks, three steps."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from kgen.report.recording import NoWholeStep, Recording
from kgen.report.timeline import NONE, Activity, EdgeTime, OperatorTime, Record, Share, covered, own_times
from kgen.report.timeline_table import to_table
from kgen.report.traced_plan import TracedPlan, read_plan

TASK, WAIT, PAGE, STREAM, COMPUTE, STORE, TRIGGER = Activity


def run(op: int, count: int, width: int, wait: int, trigger: int, index: int = 0) -> dict[str, Any]:
    sizes = {"begin": 0, "step": width, "width": width, "limit": count * width}
    places = {"index": index, "index_step": 0, "wait": wait, "trigger": trigger, "slot": 0}
    return {"op": op, "jit": False, "count": count, **sizes, **places}


def op(name: str, constants: dict[str, int], **operands: str) -> dict[str, Any]:
    return {"name": name, "kind": "", "layer": -1, "constants": constants, "operands": operands}


def tensor(name: str, space: str, shape: list[int], stride: int) -> dict[str, Any]:
    return {"name": name, "space": space, "dtype": "bf16", "shape": shape, "stride": stride}


# a in two tasks of four columns, then b of two layers, then the end of the step.
MODEL: dict[str, Any] = {
    "name": "hand",
    "runtime": {"workers": 2},
    "tensors": [
        tensor("x", "activation", [8, 4], 32),
        tensor("w", "weight", [8, 4], 32),
        tensor("bias", "weight", [8], 32),
        tensor("table", "weight", [8, 4], 32),
    ],
    "ops": [
        op("a", {"n": 8, "k": 4}, x="x", weight="w", bias="bias"),
        op("layers.0.b", {}, table="table"),
        op("layers.1.b", {}),
        op("advance", {}),
    ],
    "runs": [run(0, 2, 4, 0, 1), run(1, 1, 1, 1, 2, index=3), run(2, 1, 1, 2, 3), run(3, 1, 1, 3, 0)],
}
RECORDS = [
    # begin, end, bytes, worker, track, activity, step, task, event
    Record(900, 980, 0, 0, 0, TASK, 0, 4, NONE),
    Record(980, 1000, 0, 0, 0, TRIGGER, 0, 4, NONE),
    Record(1350, 1380, 0, 0, 0, TASK, 1, 4, NONE),
    Record(1380, 1400, 0, 0, 0, TRIGGER, 1, 4, NONE),
    Record(1400, 1410, 0, 0, 0, WAIT, 2, 0, 0),
    Record(1410, 1510, 0, 0, 0, TASK, 2, 0, NONE),
    Record(1510, 1520, 0, 0, 0, TRIGGER, 2, 0, NONE),
    Record(1520, 1720, 0, 0, 0, WAIT, 2, 2, 1),
    Record(1720, 1820, 0, 0, 0, TASK, 2, 2, NONE),
    Record(1820, 1830, 0, 0, 0, TRIGGER, 2, 2, NONE),
    Record(1830, 1930, 0, 0, 0, WAIT, 2, 4, 3),
    Record(1930, 1980, 0, 0, 0, TASK, 2, 4, NONE),
    Record(1980, 2000, 0, 0, 0, TRIGGER, 2, 4, NONE),
    Record(1300, 1420, 0, 1, 0, WAIT, 2, NONE, 0),
    Record(1420, 1425, 0, 1, 0, WAIT, 2, 1, 0),
    Record(1430, 1630, 0, 1, 0, TASK, 2, 1, NONE),
    Record(1630, 1640, 0, 1, 0, TRIGGER, 2, 1, NONE),
    Record(1640, 1850, 0, 1, 0, WAIT, 2, 3, 2),
    Record(1850, 1900, 0, 1, 0, TASK, 2, 3, NONE),
    Record(1900, 1910, 0, 1, 0, TRIGGER, 2, 3, NONE),
    Record(1910, 2010, 0, 1, 0, WAIT, 3, NONE, 0),
    # The loader of worker 1 brings what task 3 needs while task 1 runs.
    Record(1450, 1500, 0, 1, 1, PAGE, 2, 3, NONE),
    Record(1500, 1600, 640, 1, 1, STREAM, 2, 3, NONE),
]
DTYPE = np.dtype(
    [(name, np.uint64) for name in ("begin_ns", "end_ns", "bytes")]
    + [(name, np.uint32) for name in ("worker", "track", "activity", "step", "task", "event")]
)


@pytest.fixture
def plan() -> TracedPlan:
    return read_plan(MODEL)


def recording(plan: TracedPlan, **more: Any) -> Recording:
    return Recording(np.array([tuple(r) for r in RECORDS], dtype=DTYPE), plan, 2, **more)


def test_names_come_from_the_plan(plan: TracedPlan) -> None:
    assert [plan.task_name(task) for task in range(5)] == [
        *("a [0:4]", "a [4:8]", "layers.0.b [0:1] #3", "layers.1.b [0:1]", "advance [0:1]")
    ]
    assert [plan.label(op) for op in range(4)] == ["a", "layers.*.b", "layers.*.b", "advance"]
    assert [plan.edge_name(event) for event in range(4)] == [
        "advance -> next step",
        "a -> layers.0.b",
        "layers.0.b -> layers.1.b",
        "layers.1.b -> advance",
    ]


def test_only_weights_that_tasks_divide_count(plan: TracedPlan) -> None:
    assert [plan.task_bytes(task) for task in range(5)] == [4 * 64, 4 * 64, 0, 0, 0]


def test_steps_end_with_the_trigger_of_their_last_task(plan: TracedPlan) -> None:
    report = recording(plan, dropped=7).report()
    assert report.steps == (1000, 400, 600)
    assert (report.step, report.step_ns) == (2, 600)
    assert (report.records, report.dropped, report.workers) == (len(RECORDS), 7, 2)


def test_steps_that_are_cut_do_not_count(plan: TracedPlan) -> None:
    report = recording(plan, first_cut_step=2).report()
    assert (report.steps, report.step) == ((1000, 400), 1)
    with pytest.raises(NoWholeStep):
        recording(plan, first_cut_step=0).report()


def test_shares_add_up_to_the_step(plan: TracedPlan) -> None:
    """Of worker 1 the wait for the step before and the one for the step after are cut at the step."""
    assert recording(plan).report().shares == (
        Share("worker", "task", 250, 250 / 600),
        Share("worker", "wait on event", (310 + 325) / 2, 317.5 / 600),
        Share("worker", "trigger", 30, 30 / 600),
        Share("worker", "other", 2.5, 2.5 / 600),
        Share("loader", "wait on page", 50, 50 / 600),
        Share("loader", "stream", 100, 100 / 600),
        Share("loader", "other", 450, 450 / 600),
    )


def test_operators(plan: TracedPlan) -> None:
    """Bytes are those recorded, else those of the plan; a worker's tracks at the same time count once."""
    assert recording(plan).report().operators == (
        OperatorTime("a", 1, 2, 300, 300 / 1200, 512, 512 / 300 * 2e9),
        OperatorTime("layers.*.b", 2, 2, 250, 250 / 1200, 640, 640 / 250 * 2e9),
        OperatorTime("advance", 1, 1, 50, 50 / 1200, 0, 0),
    )
    report = recording(plan).report()
    assert (report.bytes, report.bytes_per_second) == (1152, 1152 / 600 * 1e9)


def test_edges(plan: TracedPlan) -> None:
    assert recording(plan).report().edges == (
        EdgeTime("layers.*.b", "layers.*.b", 1, 1, 210, 210, 210, 1850 - 1820),
        EdgeTime("a", "layers.*.b", 1, 1, 200, 200, 200, 1720 - 1630),
        EdgeTime("advance", "next step", 1, 1, 120, 120, 120, 1420 - 1380),
        EdgeTime("layers.*.b", "advance", 1, 1, 100, 100, 100, 1930 - 1900),
        EdgeTime("advance", "a", 1, 2, 15, 7.5, 10, None),
    )


def test_time_inside_a_span_is_not_that_span_s_own() -> None:
    spans = [
        Record(0, 100, 0, 0, 3, TASK, 0, 0, NONE),
        Record(10, 40, 0, 0, 3, PAGE, 0, 0, NONE),
        Record(40, 90, 0, 0, 3, COMPUTE, 0, 0, NONE),
        Record(50, 60, 0, 0, 3, STORE, 0, 0, NONE),
        Record(100, 130, 0, 0, 3, WAIT, 0, 1, 1),
    ]
    assert own_times(spans, 0, 200) == {TASK: 20, PAGE: 30, COMPUTE: 40, STORE: 10, WAIT: 30}
    assert own_times(spans, 55, 110) == {TASK: 10, COMPUTE: 30, STORE: 5, WAIT: 10}


def test_covered_counts_what_overlaps_once() -> None:
    assert covered([(5, 9), (0, 3), (2, 4), (5, 6)]) == 8


def test_json_is_plain(plan: TracedPlan) -> None:
    value = json.loads(json.dumps(recording(plan).report().to_json()))
    assert (value["step"], value["steps_ns"], value["bytes"]) == (2, [1000, 400, 600], 1152)
    assert value["edges"][0]["signal_ns"] == 30
    assert value["operators"][1]["label"] == "layers.*.b"
    assert value["time"][0] == {"role": "worker", "activity": "task", "ns": 250, "share": 250 / 600}


def test_the_table_has_the_figures(plan: TracedPlan) -> None:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as capture:
        console.print(to_table(recording(plan).report()))
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capture.get().splitlines()]
    assert "of 3 steps the median one, step 2:" in capture.get()
    assert "0.6 us (all steps: 0.4 to 1.0), 0.00 MB, 1.9 GB/s" in capture.get()
    for row in (
        ["worker", "wait on event", "0.3", "52.9"],
        ["layers.*.b", "2", "2", "0.2", "20.8", "0.1", "0.00", "5.1"],
        ["advance", "1", "1", "0.1", "4.2", "0.1", "-", "-"],
        ["advance", "a", "1", "2", "0.0", "0.0", "0.0", "-"],
    ):
        assert row in lines


def test_trace_of_everything(plan: TracedPlan) -> None:
    trace = json.loads("".join(recording(plan).trace(0)))
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == 3 + len(RECORDS)
    assert [(e["name"], e["ts"], e["dur"]) for e in spans[:3]] == [
        *(("step 0", 0, 1), ("step 1", 1, 0.4), ("step 2", 1.4, 0.6))
    ]
    by_record = dict(zip(RECORDS, spans[3:], strict=True))
    for record, name, args in (
        (RECORDS[4], "wait: advance -> next step", {"step": 2, "task": 0, "event": 0}),
        (RECORDS[7], "wait: a -> layers.0.b", {"step": 2, "task": 2, "event": 1}),
        (RECORDS[8], "layers.0.b [0:1] #3", {"step": 2, "task": 2}),
        (RECORDS[9], "trigger: layers.0.b [0:1] #3", {"step": 2, "task": 2}),
        (RECORDS[-1], "stream: layers.1.b [0:1]", {"step": 2, "task": 3, "bytes": 640}),
    ):
        assert (by_record[record]["name"], by_record[record]["args"]) == (name, args)
    threads = {
        event["tid"]: event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }
    assert [threads[by_record[r]["tid"]] for r in (RECORDS[0], RECORDS[-3], RECORDS[-1])] == [
        *("worker 0", "worker 1", "worker 1 loader")
    ]


def test_trace_of_the_steps_around_the_median(plan: TracedPlan) -> None:
    """Step 1 and a wait that began in it; what lies in the step before does not count."""
    trace = json.loads("".join(recording(plan, first_cut_step=2).trace(1)))
    spans = [e["ts"] for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
    assert spans == [1.35, 1.38, 1.3]
