from __future__ import annotations

import time
from dataclasses import replace

import pytest

from kgen.ir.tensor import DType
from kgen.passes.pipeline import CompileError, compile_graph
from kgen.plan.plan import START_EVENT
from tests.graphs import QWEN3_1_7B, QWEN3_8B, TINY, Model, build, with_forks


def test_stages_in_order() -> None:
    compilation = compile_graph(build(TINY))
    assert [stage.name for stage in compilation.stages] == [
        *("check", "decompose", "dependencies", "fuse_events", "normalize", "linearize"),
        *("select_tasks", "place", "plan"),
    ]
    counts = {stage.name: stage.counts for stage in compilation.stages}
    assert counts["decompose"]["tasks"] == len(compilation.plan.tasks())
    assert counts["linearize"]["events"] == len(compilation.plan.events)
    assert counts["fuse_events"]["events_before"] == counts["dependencies"]["pairs"]


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize(
    ("model", "events", "tasks", "tasks_per_op"),
    [(QWEN3_1_7B, 935, 8152, 35.6), (QWEN3_8B, 1183, 13859, 47.3)],
)
def test_big_models(model: Model, events: int, tasks: int, tasks_per_op: float, batch: int) -> None:
    """At most half the events of MPK's compiler at the same or more tasks, few empty ones, and fast."""
    graph = build(replace(model, batch=batch))
    start = time.perf_counter()
    compilation = compile_graph(graph)
    seconds = time.perf_counter() - start
    counts = {stage.name: stage.counts for stage in compilation.stages}
    assert counts["fuse_events"]["after_predecessor_fusion"] <= events
    assert len(compilation.plan.events) <= events
    assert counts["decompose"]["tasks"] >= tasks
    assert counts["decompose"]["tasks"] >= tasks_per_op * len(graph.ops)
    assert counts["normalize"]["empty_tasks"] <= counts["decompose"]["tasks"] / 100
    assert seconds < 10  # 1.3 s alone; the margin is for a busy machine


def test_the_same_graph_gives_the_same_plan() -> None:
    assert compile_graph(build(TINY)).plan == compile_graph(build(TINY)).plan


def test_a_step_starts_with_what_waits_for_nothing_and_ends_with_advance() -> None:
    plan = compile_graph(build(TINY)).plan
    tasks = plan.tasks()
    start = plan.events[START_EVENT]
    assert {plan.ops[t.op].name for t in tasks[: start.count]} == {"embed"}
    assert [plan.ops[t.op].name for t in tasks if t.trigger == START_EVENT] == ["advance"]


def test_a_fork_gets_empty_tasks_in_the_plan() -> None:
    graph = with_forks(replace(TINY, layers=1, rows=3))
    plan = compile_graph(graph).plan
    names = [plan.ops[t.op].name for t in plan.tasks()]
    # A row of attn_norm opens its row of `double` and, with the others, qkv: a fork of two for each of 3
    # rows. So does a row of `double` with its row of `again` and `side`. Last, each of the three tiles of o
    # overwrites the x that its tile of `side` reads: attention and `again` open three events between them.
    assert names.count("empty") == 2 * 3 + 2 * 3 + 3
    assert plan.variants[plan.ops[-1].variant].kind == "empty"


def test_a_graph_with_many_faults_lists_them() -> None:
    graph = build(TINY)
    wrong = replace(
        graph,
        runtime=replace(graph.runtime, rows=1),
        tensors=tuple(replace(t, dtype=DType.F32) if t.name == "h" else t for t in graph.tensors),
    )
    with pytest.raises(CompileError) as caught:
        compile_graph(wrong)
    assert caught.value.problems[0] == "runtime: 1 rows cannot carry a token of each of 2 sequences"
    assert "layers.0.attn_norm: out `h` must be bf16 [1, 40], not f32 [5, 40]" in caught.value.problems
