"""Joins the tests of a project that is emulated with a timeline: the kernel that reads prompts is in it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from prompts import random_prompt

TASK, WAIT_EVENT, STREAM = 0, 1, 3
LENGTH = 40  # tokens, of which one pass of the prefill kernel reads all but the last


def spans(records: np.ndarray, worker: int, step: int, activity: int, task: int) -> list[tuple[int, int]]:
    """Begin and end of what a worker did for a task in a step."""
    of_worker = records[(records["worker"] == worker) & (records["step"] == step)]
    found = of_worker[(of_worker["activity"] == activity) & (of_worker["task"] == task)]
    return sorted(zip(found["begin_ns"].tolist(), found["end_ns"].tolist(), strict=True))


def test_prompts_are_in_the_first_step(model: Any, spec: dict[str, Any]) -> None:
    """Every operator of layer 0 once more than in the next step, and before it."""
    model.generate([random_prompt(spec, LENGTH)], max_new_tokens=2)
    timeline = model.timeline()
    assert timeline.dropped == 0
    first_tasks = {}
    for task, op in enumerate(run["op"] for run in spec["runs"] for _ in range(run["count"])):
        first_tasks.setdefault(op, task)
    for step in (0, 1):
        loads = timeline.records[timeline.records["activity"] == STREAM]
        assert {*loads["worker"][loads["step"] == step].tolist()} == {*range(model.info.workers)}
    names = [op["name"] for op in spec["ops"]]
    for name in ("wqkv", "attention", "wo", "swiglu", "wdown"):
        (op,) = (i for i, one in enumerate(names) if one == f"layers.0.{name}")
        for worker in range(model.info.workers):
            done, next_done, waits, next_waits = (
                spans(timeline.records, worker, step, activity, first_tasks[op])
                for activity in (TASK, WAIT_EVENT)
                for step in (0, 1)
            )
            assert len(done) > len(next_done), (name, worker)
            assert len(waits) > len(next_waits), (name, worker)
            assert all(one[1] <= after[0] for one, after in pairwise(done))
