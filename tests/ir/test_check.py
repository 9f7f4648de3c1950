from __future__ import annotations

from dataclasses import replace

import pytest

from kgen.ir.attention import Attention
from kgen.ir.check import check_graph
from kgen.ir.graph import Graph
from kgen.ir.rmsnorm import RmsNorm
from kgen.ir.sample import Advance
from kgen.ir.tensor import Space
from tests.graphs import TINY, build


def changed(name: str, **changes: object) -> Graph:
    """The tiny graph with fields of one operator changed."""
    graph = build(TINY)
    return replace(graph, ops=tuple(replace(op, **changes) if op.name == name else op for op in graph.ops))


def test_a_good_graph_has_no_problems() -> None:
    for model in (TINY, replace(TINY, fused=False, bias=True, qk_norm=True, tied=False)):
        assert check_graph(build(model)) == []


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("embed", {"table": "tabel"}, ["embed: there is no tensor `tabel`"]),
        (
            "layers.0.o",
            {"x": "f"},
            ["layers.0.o: x `f` must be bf16 [5, 32], not bf16 [5, 72]"],
        ),
        (
            "layers.1.attention",
            {"kv_layer": 0},
            ["attention operators must number their KV layers from 0 in order, not [0, 0]"],
        ),
        (
            "layers.1.attention",
            {"heads": 3, "kv_heads": 2},
            [
                "layers.1.attention: qkv `qkv` must be f32 [5, 56], not f32 [5, 64]",
                "layers.1.attention: out `a` must be bf16 [5, 24], not bf16 [5, 32]",
                "layers.1.attention: 3 heads do not divide among 2 KV heads",
            ],
        ),
    ],
)
def test_operators_that_do_not_fit(name: str, changes: dict[str, object], expected: list[str]) -> None:
    assert check_graph(changed(name, **changes)) == expected


def test_layers_must_agree_about_the_cache() -> None:
    problems = check_graph(changed("layers.1.attention", kv_heads=4, heads=4, head=4))
    assert "layers.1.attention: KV heads and head size must be those of layers.0.attention" in problems
    assert "layers.1.attention: the head size 4 is not a multiple of 8" in problems
    problems = check_graph(changed("layers.1.attention", head=264))
    assert "layers.1.attention: the head size 264 is more than 256" in problems


def test_each_end_operator_is_there_once_and_advance_is_last() -> None:
    graph = build(TINY)
    without = replace(graph, ops=tuple(op for op in graph.ops if not isinstance(op, Advance)))
    assert check_graph(without) == [
        "a graph has one advance operator, not 0",
        "sample: the last operator must be advance",
    ]
    twice = replace(graph, ops=(*graph.ops[:-1], graph.ops[-2], graph.ops[-1]))
    assert check_graph(twice) == ["a graph has one sample operator, not 2"]


def test_runtime() -> None:
    graph = build(TINY)
    assert check_graph(replace(graph, runtime=replace(graph.runtime, workers=0, context=-1))) == [
        "runtime: context must be at least 1, not -1",
        "runtime: workers must be at least 1, not 0",
    ]


def test_weights_and_activations_are_not_mixed() -> None:
    graph = build(TINY)
    moved = tuple(replace(t, space=Space.WEIGHT) if t.name == "f" else t for t in graph.tensors)
    problems = check_graph(replace(graph, tensors=moved))
    assert "layers.0.swiglu: out `f` must be in activation memory" in problems
    assert "layers.0.down: x `f` must be in activation memory" in problems


def test_a_buffer_is_by_rows_or_by_sequences_but_not_both() -> None:
    """With as many rows as sequences the shapes agree, and only the layout tells the two apart."""
    m = replace(TINY, batch=3, rows=3, hidden=TINY.vocab)
    graph = build(m)
    norm = RmsNorm("odd", -1, "logits", "final_norm", "h", 1e-5)
    problems = check_graph(replace(graph, ops=(*graph.ops[:-2], norm, *graph.ops[-2:])))
    assert problems == ["`logits` is used by sequences in logits but by token rows in odd"]


def test_attention_reads_its_group_and_writes_its_heads() -> None:
    from kgen.passes.decompose import choose_tiles

    graph = build(replace(TINY, heads=6, kv_heads=2, batch=2, rows=5))
    op = next(op for op in graph.ops if isinstance(op, Attention))
    tiles = choose_tiles(op, graph)
    # Tasks: (sequence 0, head 0), (1, 0), (0, 1), (1, 1). Six q heads of 8, then k heads, then v heads.
    q, k, v = op.reads(tiles, graph)
    assert q.box.sequences.low.tolist() == [0, 1, 0, 1]
    assert (q.box.columns.low.tolist(), q.box.columns.high.tolist()) == ([0, 0, 24, 24], [24, 24, 48, 48])
    assert (k.box.columns.low.tolist(), k.box.columns.high.tolist()) == ([48, 48, 56, 56], [56, 56, 64, 64])
    assert (v.box.columns.low.tolist(), v.box.columns.high.tolist()) == ([64, 64, 72, 72], [72, 72, 80, 80])
    assert q.box.rows == (0, 5)
    out = op.writes(tiles, graph)
    assert (out.box.columns.low.tolist(), out.box.columns.high.tolist()) == ([0, 0, 24, 24], [24, 24, 48, 48])
