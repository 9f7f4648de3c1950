from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.passes.pipeline import compile_graph
from kgen.plan.plan import TaskRow, TaskRun
from kgen.plan.runs import encode_runs
from tests.graphs import QWEN3_1_7B, TINY, Model, build


def task(begin: int, end: int, index: int = 0, slot: int = -1, op: int = 0) -> TaskRow:
    return TaskRow(op, slot < 0, begin, end, index, wait=1, trigger=2, slot=slot)


def expand(runs: tuple[TaskRun, ...], workers: int) -> list[TaskRow]:
    return [t for run in runs for t in run.expand(workers)]


def test_tiles_with_a_ragged_end_are_one_run() -> None:
    tasks = [task(0, 16, slot=1), task(16, 32, slot=2), task(32, 40, slot=0)]
    assert encode_runs(tasks, workers=3) == (
        TaskRun(0, False, 3, 0, 16, 16, 40, 0, 0, wait=1, trigger=2, slot=1),
    )


def test_sequences_of_one_head_are_a_run_and_the_next_head_another() -> None:
    tasks = [task(s, s + 1, index) for index in (0, 1) for s in range(3)]
    assert encode_runs(tasks, workers=3) == (
        TaskRun(0, True, 3, 0, 1, 1, 3, 0, 0, wait=1, trigger=2, slot=0),
        TaskRun(0, True, 3, 0, 1, 1, 3, 1, 0, wait=1, trigger=2, slot=0),
    )


def test_heads_of_one_sequence_are_a_run_of_indices() -> None:
    tasks = [task(0, 1, index) for index in (2, 3, 4)]
    assert encode_runs(tasks, workers=3) == (
        TaskRun(0, True, 3, 0, 0, 1, 1, 2, 1, wait=1, trigger=2, slot=0),
    )


@pytest.mark.parametrize(
    "second",
    [
        task(8, 16, slot=1, op=1),
        task(8, 16, slot=2),
        task(8, 17, slot=1),
        replace(task(8, 16, slot=1), wait=3),
        replace(task(8, 16, slot=1), trigger=3),
        task(0, 4, slot=1),
    ],
)
def test_what_breaks_a_run(second: TaskRow) -> None:
    first = task(0, 8, slot=0)
    runs = encode_runs([first, second], workers=4)
    assert len(runs) == 2
    assert expand(runs, 4) == [first, second]


ROWS = st.builds(
    lambda op, begin, width, index, slot: task(begin, begin + width, index, slot, op),
    op=st.integers(0, 1),
    begin=st.integers(0, 6),
    width=st.integers(1, 3),
    index=st.integers(0, 2),
    slot=st.integers(-1, 2),
)


@given(st.lists(ROWS, max_size=12))
def test_any_tasks_come_back(tasks: list[TaskRow]) -> None:
    runs = encode_runs(tasks, workers=3)
    assert expand(runs, 3) == tasks
    for run in runs:
        assert min(run.begin, run.step, run.width, run.limit, run.index, run.index_step, run.slot) >= 0


@pytest.mark.parametrize("model", [TINY, QWEN3_1_7B])
def test_runs_of_a_model_are_far_fewer_than_its_tasks(model: Model) -> None:
    plan = compile_graph(build(model)).plan
    # An operator is one run, but qkv is one for each head and attention one for each KV head.
    per_layer = 6 + model.heads + 2 * model.kv_heads + model.kv_heads
    assert len(plan.runs) <= model.layers * per_layer + 2 * model.rows * (model.layers + 1)
    assert encode_runs(plan.tasks(), plan.runtime.workers) == plan.runs
