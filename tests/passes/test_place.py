from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kgen.ir.region import Axis, Tiles
from kgen.passes.pipeline import compile_graph
from kgen.passes.place import queue_capacity
from tests.graphs import QWEN3_1_7B, QWEN3_8B, TINY, Model, build


def test_attention_goes_through_the_queue_and_all_else_round_robin() -> None:
    compilation = compile_graph(build(replace(TINY, layers=1, rows=2)))
    tasks = compilation.plan.tasks()
    names = [compilation.plan.ops[t.op].name for t in tasks]
    slots: dict[str, list[int]] = {}
    for name, task in zip(names, tasks, strict=True):
        assert task.jit == (name == "layers.0.attention")
        slots.setdefault(name, []).append(task.slot)
    assert slots["layers.0.attention"] == [-1] * 4
    # 3 workers. qkv has 8 tiles of 8 columns, which leaves 24, 24 and 16; o has 16, 16 and 8 with equally
    # long rows: starting at slot 1 or 2 gives 32, 40 and 32 in some order, at slot 0 it would be 40, 40, 24.
    assert slots["layers.0.qkv"] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert slots["layers.0.o"] == [1, 2, 0]
    # The others take turns of their own.
    assert slots["embed"] == [0, 1]
    assert slots["layers.0.attn_norm"] == [2, 0]
    assert slots["layers.0.ffn_norm"] == [1, 2]


@pytest.mark.parametrize("model", [QWEN3_1_7B, replace(QWEN3_8B, batch=16)])
def test_slots_get_equal_shares_of_the_weights(model: Model) -> None:
    compilation = compile_graph(build(model))
    graph, plan = compilation.graph, compilation.plan
    share = np.zeros(plan.runtime.workers)
    for task in plan.tasks():
        op = graph.ops[task.op]
        if op.axis is Axis.COLUMNS:
            tiles = Tiles(*(np.array([x], dtype=np.int64) for x in (task.begin, task.end, task.index)))
            share[task.slot] += int(op.cost(tiles, graph)[0])
    assert share.max() / share.mean() < 1.01


@pytest.mark.parametrize(
    ("tasks", "capacity"), [(0, 1), (1, 1), (2, 2), (3, 4), (8, 8), (9, 16), (4608, 8192)]
)
def test_queue_capacity(tasks: int, capacity: int) -> None:
    assert queue_capacity(tasks) == capacity
