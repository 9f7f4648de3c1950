"""What a library built with a timeline records; one built without says so."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from project import PROJECT
from prompts import random_prompt

TASK, WAIT_EVENT = 0, 1
NONE = 0xFFFFFFFF
TOKENS = 3


TIMES = ("begin_ns", "end_ns")


def refusal(model: Any, binding: ModuleType, spec: dict[str, Any]) -> Any:
    """After a call of TOKENS steps: the error of a library that was built without a timeline, else None."""
    model.generate([random_prompt(spec, 2)], max_new_tokens=TOKENS)
    try:
        model.timeline()
    except binding.ModelError as error:
        return error
    return None


@pytest.fixture
def timeline(model: Any, binding: ModuleType, spec: dict[str, Any]) -> Any:
    """Of a call of TOKENS steps."""
    if refusal(model, binding, spec) is not None:
        pytest.skip("this library was built without a timeline")
    return model.timeline()


@pytest.fixture
def of_tasks(
    timeline: Any, model: Any, make_model: Callable[..., Any], binding: ModuleType, spec: dict[str, Any]
) -> Any:
    """The same of the general worker, which runs one task after the other; who asks for a number of workers
    gets it. The cluster worker tells operators apart."""
    general = make_model(workers=model.info.workers)
    assert refusal(general, binding, spec) is None
    return general.timeline()


def test_a_library_without_a_timeline_says_so(
    binding: ModuleType, model: Any, library: Any, weights: Path, spec: dict[str, Any]
) -> None:
    error = refusal(model, binding, spec)
    if error is None:
        pytest.skip("this library was built with a timeline")
    assert error.status == binding.Status.UNSUPPORTED
    assert "built without" in error.sentence
    with pytest.raises(binding.ModelError, match="timeline_records is 5"):
        binding.Model(weights, library=library, timeline_records=5)


def test_every_operator_is_there_every_step(timeline: Any, spec: dict[str, Any]) -> None:
    """At least linear operators and attention, which no worker folds into others."""
    operators = [run["op"] for run in spec["runs"] for _ in range(run["count"])]
    kept = {
        n for n, op in enumerate(spec["ops"]) if op["kind"] in ("linear", "attention", "swiglu", "logits")
    }
    assert kept
    records = timeline.records[timeline.records["activity"] == TASK]
    for step in range(TOKENS):
        assert kept <= {operators[task] for task in records["task"][records["step"] == step]}


def test_every_task_is_there_once_a_step(of_tasks: Any, spec: dict[str, Any]) -> None:
    """Just-in-time tasks of sequences without rows are not run, so they may be missing."""
    tasks = [run for run in spec["runs"] for _ in range(run["count"])]
    records = of_tasks.records
    assert (of_tasks.dropped, of_tasks.first_cut_step) == (0, NONE)
    for step in range(TOKENS):
        of_step = records[records["step"] == step]
        done = Counter(of_step["task"][of_step["activity"] == TASK].tolist())
        assert set(done.values()) == {1}
        assert {t for t, run in enumerate(tasks) if not run["jit"]} <= done.keys() <= set(range(len(tasks)))
        waits = of_step[of_step["activity"] == WAIT_EVENT]
        waited = {
            task: event for task, event in zip(waits["task"], waits["event"], strict=True) if task != NONE
        }
        assert all(tasks[task]["wait"] == event for task, event in waited.items())
        assert {t for t, run in enumerate(tasks) if not run["jit"]} == waited.keys()
    assert records["step"].max() == TOKENS  # the wait that found that no sequence is left


def check_tracks(records: Any, workers: int) -> None:
    """The first track of every worker, in the order in which it is given."""
    assert (records["begin_ns"] <= records["end_ns"]).all()
    assert records["worker"].max() < workers
    for worker in np.unique(records["worker"]):
        track = records[(records["worker"] == worker) & (records["track"] == 0)]
        assert (track["end_ns"][:-1] <= track["begin_ns"][1:]).all()


def test_a_track_does_one_thing_at_a_time(of_tasks: Any, model: Any) -> None:
    check_tracks(of_tasks.records, model.info.workers)


def test_a_track_does_one_thing_of_a_kind_at_a_time(timeline: Any, model: Any) -> None:
    """The cluster worker's waits lie inside its tasks."""
    for activity in np.unique(timeline.records["activity"]):
        check_tracks(timeline.records[timeline.records["activity"] == activity], model.info.workers)


def test_a_task_begins_after_those_it_waits_for(of_tasks: Any, spec: dict[str, Any]) -> None:
    """Across workers, so that their clocks must agree: to 2 us, which is what a GPU's clocks allow."""
    tasks = [run for run in spec["runs"] for _ in range(run["count"])]
    records = of_tasks.records[of_tasks.records["activity"] == TASK]
    step = records[records["step"] == 1]
    begin, end = (dict(zip(step["task"].tolist(), step[key].tolist(), strict=True)) for key in TIMES)
    for event in {run["wait"] for run in spec["runs"]} - {0}:
        before = [end[t] for t, run in enumerate(tasks) if run["trigger"] == event and t in end]
        after = [begin[t] for t, run in enumerate(tasks) if run["wait"] == event and t in begin]
        assert max(before) <= min(after) + 2000


def test_a_call_forgets_the_one_before(timeline: Any, model: Any, spec: dict[str, Any]) -> None:
    model.generate([random_prompt(spec, 2)], max_new_tokens=1)
    again = model.timeline()
    assert again.records["step"].max() == 1
    assert len(again.records) < len(timeline.records)


def test_full_buffers_are_counted(
    timeline: Any, make_model: Callable[..., Any], spec: dict[str, Any]
) -> None:
    small = make_model(timeline_records=7, workers=1)
    small.generate([random_prompt(spec, 2)], max_new_tokens=TOKENS)
    cut = small.timeline()
    assert len(cut.records) == 7
    assert (cut.dropped > 0, cut.first_cut_step) == (True, 0)


def test_model_json_has_the_tasks() -> None:
    runs = json.loads((PROJECT / "model.json").read_text())["runs"]
    assert {run["trigger"] for run in runs} == {run["wait"] for run in runs}
