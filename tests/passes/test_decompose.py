from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from kgen.ir.graph import Graph
from kgen.ir.linear import Linear
from kgen.ir.operator import token_rows
from kgen.ir.region import Access, Span, Tiles
from kgen.passes.decompose import MAX_COLUMNS, TASK_OVERHEAD, choose_tiles, decompose
from kgen.passes.errors import CompileError
from tests.graphs import QWEN3_1_7B, QWEN3_8B, TINY, Model, build


def listing(model: Model) -> dict[str, list[str]]:
    tgraph = decompose(build(model))
    result: dict[str, list[str]] = {}
    for i, op in enumerate(tgraph.tasks.op.tolist()):
        result.setdefault(tgraph.op_names[op], []).append(
            tgraph.describe(i).removeprefix(tgraph.op_names[op])
        )
    return result


def test_a_tiny_model() -> None:
    tasks = listing(replace(TINY, layers=1, rows=3))
    assert tasks["embed"] == tasks["final_norm"] == ["[0:1]", "[1:2]", "[2:3]"]
    # 64 columns in heads of 8: a tile must stay inside one head.
    assert tasks["layers.0.qkv"] == [f"[{i}:{i + 8}]" for i in range(0, 64, 8)]
    # 40 columns on 3 workers: three tiles of 16, the last one ragged, take one round.
    assert tasks["layers.0.o"] == ["[0:16]", "[16:32]", "[32:40]"]
    assert tasks["logits"] == ["[0:32]", "[32:64]", "[64:83]"]
    # Two sequences of each of two KV heads.
    assert tasks["layers.0.attention"] == ["[0:1]", "[1:2]", "[0:1]/1", "[1:2]/1"]
    assert tasks["sample"] == ["[0:1]", "[1:2]"]
    assert tasks["advance"] == ["[0:1]"]


@pytest.mark.parametrize("workers", [1, 2, 16, 78, 132, 148])
@pytest.mark.parametrize("model", [QWEN3_1_7B, QWEN3_8B, replace(TINY, hidden=576, ffn=1536, head=64)])
def test_the_chosen_width_is_the_best_of_all(model: Model, workers: int) -> None:
    graph = build(replace(model, workers=workers, layers=1))
    for op in graph.ops:
        if not isinstance(op, Linear):
            continue
        weight = graph.by_name[op.weight]
        n, column_bytes = weight.rows, weight.stride * 2
        allowed = [
            w for w in range(8, MAX_COLUMNS + 1, 8) if not op.name.endswith("qkv") or model.head % w == 0
        ]

        def time(width: int, n: int = n, column_bytes: int = column_bytes) -> int:
            rounds = math.ceil(math.ceil(n / width) / workers)
            return rounds * (min(width, n) * column_bytes + TASK_OVERHEAD)

        tiles = choose_tiles(op, graph)
        width = int(tiles.end[0] - tiles.begin[0])
        assert width in allowed
        assert time(width) == min(map(time, allowed))


def test_qkv_tiles_of_the_big_models_feed_one_head() -> None:
    for model in (QWEN3_1_7B, QWEN3_8B):
        tgraph = decompose(build(replace(model, layers=1)))
        qkv = tgraph.tasks.op == tgraph.op_names.index("layers.0.qkv")
        begin, end = tgraph.tasks.begin[qkv], tgraph.tasks.end[qkv]
        assert (begin // model.head == (end - 1) // model.head).all()


@dataclass(frozen=True)
class Leaky(Linear):
    """Writes its tile moved and widened by so many columns."""

    move: ClassVar[int]
    widen: ClassVar[int]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        return token_rows(
            graph, self.out, columns=Span(tiles.begin + self.move, tiles.end + self.move + self.widen)
        )


@pytest.mark.parametrize(
    ("move", "widen", "message"),
    [
        (0, 1, r"layers.0.qkv: tasks \[0:8\]/0 and \[8:16\]/0 write the same elements"),
        (0, -1, "layers.0.qkv: its tasks write 560 elements of 640"),
        (1, 0, "layers.0.qkv: its tasks write 640 elements of 640, not all of them inside"),
    ],
)
def test_tasks_that_do_not_partition_the_output_are_refused(move: int, widen: int, message: str) -> None:
    graph = build(TINY)
    family = type("Family", (Leaky,), {"move": move, "widen": widen})
    ops = [family(**vars(op)) if op.name == "layers.0.qkv" else op for op in graph.ops]
    with pytest.raises(CompileError, match=message):
        decompose(replace(graph, ops=tuple(ops)))


@pytest.mark.parametrize(
    ("model", "operator"),
    [
        (replace(TINY, ffn=2**31 - 1), "layers.0.swiglu"),
        (replace(TINY, vocab=2**24 - 1), "logits"),
        (replace(TINY, batch=256, rows=256, heads=100, kv_heads=100), "layers.0.attention"),
        (replace(TINY, heads=20000), "layers.0.qkv"),
    ],
)
def test_more_tasks_than_can_be_checked_are_refused(model: Model, operator: str) -> None:
    with pytest.raises(CompileError, match=rf"decompose: {operator}.*: \d+ tasks, but .* at most 16384"):
        decompose(build(model))
