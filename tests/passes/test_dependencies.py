from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from kgen.ir.elementwise import Add
from kgen.ir.embedding import Embedding
from kgen.ir.graph import Graph, Runtime
from kgen.ir.linear import Linear, Logits
from kgen.ir.operator import Operator
from kgen.ir.region import Box, Tiles
from kgen.ir.rmsnorm import RmsNorm
from kgen.ir.sample import Advance, Sample
from kgen.ir.tensor import DType, Space, Tensor
from kgen.passes.decompose import decompose
from kgen.passes.dependencies import dependencies
from kgen.passes.errors import CompileError
from kgen.tgraph.tgraph import TGraph
from tests.graphs import TINY, Model, build
from tests.passes.dags import closure


def listing(tgraph: TGraph) -> list[str]:
    """`a[0:1] -> b[0:8] b[8:16]`, a line for each producer in each block."""
    lines = []
    for block in tgraph.pairs:
        for p, row in enumerate(block.mask):
            names = [tgraph.describe(block.first_consumer + c) for c in np.flatnonzero(row)]
            if names:
                lines.append(f"{tgraph.describe(block.first_producer + p)} -> {' '.join(names)}")
    return lines


def test_read_after_write() -> None:
    graph = build(replace(TINY, layers=1, rows=2, workers=2, batch=1))
    lines = listing(dependencies(graph, decompose(graph)))
    # A norm reads its row, a linear layer all rows.
    assert "embed[0:1] -> layers.0.attn_norm[0:1]" in lines
    assert (
        "layers.0.attn_norm[1:2] -> " + " ".join(f"layers.0.qkv[{i}:{i + 8}]" for i in range(0, 64, 8))
        in lines
    )
    # Q heads 0 and 1, K head 0 and V head 0 belong to KV head 0; the rest to KV head 1.
    for column, kv_head in ((0, 0), (8, 0), (16, 1), (24, 1), (32, 0), (40, 1), (48, 0), (56, 1)):
        part = f"/{kv_head}" if kv_head else ""
        assert f"layers.0.qkv[{column}:{column + 8}] -> layers.0.attention[0:1]{part}" in lines


def around(*between: Operator) -> Graph:
    """Embedding to x (two rows of 16), the operators given, and what ends a step; one worker."""
    tensors = (
        Tensor("tokens", (2,), DType.I32, Space.ACTIVATION),
        Tensor("sampled", (1,), DType.I32, Space.ACTIVATION),
        Tensor("logits", (1, 9), DType.F32, Space.ACTIVATION),
        Tensor("table", (9, 16), DType.BF16, Space.WEIGHT),
        Tensor("w", (16,), DType.BF16, Space.WEIGHT),
        Tensor("wide", (136, 16), DType.BF16, Space.WEIGHT),
        Tensor("square", (16, 16), DType.BF16, Space.WEIGHT),
        Tensor("x", (2, 16), DType.F32, Space.ACTIVATION),
        Tensor("z", (2, 136), DType.F32, Space.ACTIVATION),
        Tensor("h", (2, 16), DType.BF16, Space.ACTIVATION),
    )
    end = (
        Logits("logits", -1, "h", "table", "logits"),
        Sample("sample", -1, "logits", "sampled"),
        Advance("advance", -1, "sampled", "tokens"),
    )
    ops = (Embedding("embed", -1, "tokens", "table", "x"), *between, *end)
    return Graph("small", Runtime(1, 8, 8, 2, 1), {}, tensors, ops)


def test_write_after_read_and_write_after_write() -> None:
    graph = around(
        RmsNorm("norm", -1, "x", "w", "h", 1e-5),
        Linear("wide", -1, "h", "wide", "z"),
        Linear("square", -1, "h", "square", "x"),
        RmsNorm("again", -1, "x", "w", "h", 1e-5),
    )
    lines = listing(dependencies(graph, decompose(graph)))
    assert [line for line in lines if not any(op in line for op in ("logits", "sample", "advance"))] == [
        # read after write
        "embed[0:1] -> norm[0:1]",
        "embed[1:2] -> norm[1:2]",
        # write after write
        "embed[0:1] -> square[0:16]",
        "embed[1:2] -> square[0:16]",
        "norm[0:1] -> wide[0:72] wide[72:136]",
        "norm[1:2] -> wide[0:72] wide[72:136]",
        # reads h, and overwrites the x that norm reads
        "norm[0:1] -> square[0:16]",
        "norm[1:2] -> square[0:16]",
        # write after write of h, row by row
        "norm[0:1] -> again[0:1]",
        "norm[1:2] -> again[1:2]",
        # write after read of h
        "wide[0:72] -> again[0:1] again[1:2]",
        "wide[72:136] -> again[0:1] again[1:2]",
        "square[0:16] -> again[0:1] again[1:2]",
    ]


def elements(box: Box, task: int) -> set[tuple[int, ...]]:
    ranges = []
    for low, high in box:
        bounds = [int(b if np.ndim(b) == 0 else np.asarray(b)[task]) for b in (low, high)]
        ranges.append(range(*bounds))
    return set(product(*ranges))


SMALL = replace(TINY, hidden=16, ffn=24, heads=2, kv_heads=1, vocab=17, layers=2, rows=2, workers=2, batch=2)


@pytest.mark.parametrize("model", [SMALL, replace(SMALL, fused=False, bias=True, batch=1, kv_heads=2)])
def test_the_order_is_that_of_a_search_through_all_elements(model: Model) -> None:
    graph = build(model)
    tgraph = dependencies(graph, decompose(graph))
    t = tgraph.tasks
    touched: list[tuple[dict[str, set[tuple[int, ...]]], dict[str, set[tuple[int, ...]]]]] = []
    for number, op in enumerate(graph.ops):
        part = np.flatnonzero(t.op == number)
        tiles = Tiles(t.begin[part], t.end[part], t.index[part])
        for i in range(len(part)):
            reads: dict[str, set[tuple[int, ...]]] = {}
            for tensor, box in op.reads(tiles, graph):
                reads.setdefault(tensor, set()).update(elements(box, i))
            tensor, box = op.writes(tiles, graph)
            touched.append((reads, {tensor: elements(box, i)}))

    def conflict(first: int, second: int) -> bool:
        (r1, w1), (r2, w2) = touched[first], touched[second]
        return any(
            not a[tensor].isdisjoint(b[tensor])
            for a, b in ((w1, r2), (r1, w2), (w1, w2))
            for tensor in a
            if tensor in b
        )

    count = len(t)
    expected = np.zeros((count, count), dtype=np.bool_)
    for first in range(count):
        for second in range(first + 1, count):
            if t.op[first] < t.op[second]:
                expected[first, second] = conflict(first, second)
    expected[:-1, -1] = True
    got = np.zeros((count, count), dtype=np.bool_)
    for block in tgraph.pairs:
        rows, columns = block.mask.shape
        got[
            block.first_producer : block.first_producer + rows,
            block.first_consumer : block.first_consumer + columns,
        ] |= block.mask
    assert (closure(got) == closure(expected)).all()
    # And nowhere else: each pair is a conflict of its own, or ends the step.
    assert not (got & ~expected).any()


def test_a_task_that_nothing_reads_still_comes_before_the_end_of_the_step() -> None:
    graph = build(replace(TINY, layers=1, rows=2))
    unused = Tensor("unused", (2, 40), DType.F32, Space.ACTIVATION)
    ops = (*graph.ops[:1], Add("spare", -1, "x", "x", "unused"), *graph.ops[1:])
    graph = replace(graph, ops=ops, tensors=(*graph.tensors, unused))
    lines = listing(dependencies(graph, decompose(graph)))
    # Row 0 of x is overwritten by layers.0.o, which must wait for its reader; the result itself goes nowhere.
    assert "spare[0:1] -> layers.0.o[0:16] layers.0.o[16:32] layers.0.o[32:40]" in lines


def test_tasks_of_one_operator_must_not_meet() -> None:
    graph = build(replace(TINY, layers=1))
    weight = Tensor("square", (40, 40), DType.BF16, Space.WEIGHT)
    ops = (*graph.ops[:2], Linear("bad", 0, "h", "square", "h"), *graph.ops[2:])
    graph = replace(graph, ops=ops, tensors=(*graph.tensors, weight))
    with pytest.raises(
        CompileError, match=r"bad: task \[0:16\]/0 writes what task \[16:32\]/0 of it reads in `h`"
    ):
        dependencies(graph, decompose(graph))


def test_a_buffer_must_be_written_before_it_is_read() -> None:
    graph = build(TINY)
    with pytest.raises(
        CompileError, match=r"layers\.0\.attn_norm reads `x` before any operator has written it"
    ):
        dependencies(replace(graph, ops=graph.ops[1:]), decompose(replace(graph, ops=graph.ops[1:])))
