from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from kgen.ir.elementwise import Add
from kgen.ir.graph import Graph
from kgen.ir.linear import Linear
from kgen.ir.region import Box, Tiles
from kgen.ir.rmsnorm import RmsNorm
from kgen.ir.tensor import DType, Space, Tensor
from kgen.passes.decompose import decompose
from kgen.passes.dependencies import dependencies
from kgen.passes.errors import CompileError
from kgen.tgraph.tgraph import NONE, TGraph
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


def pairs_of(*ops: object, widths: dict[str, int]) -> list[str]:
    """Pairs among operators on two token rows; tensors named `w...` are weights, `h...` bf16."""
    base = build(replace(TINY, rows=2, workers=2, batch=1))
    tensors = []
    for name, n in widths.items():
        weight = name.startswith("w")
        shape = (n, 16) if name.startswith("wm") else (n,) if weight else (2, n)
        dtype = DType.BF16 if name[0] in "wh" else DType.F32
        tensors.append(Tensor(name, shape, dtype, Space.WEIGHT if weight else Space.ACTIVATION))
    graph = replace(base, tensors=tuple(tensors), ops=ops)
    return listing(dependencies(graph, replace(decompose(graph), last=NONE)))


def make(name: str, out: str) -> Add:
    return Add(name, -1, "zero", "zero", out)


ZERO = RmsNorm("zero", -1, "zero", "w", "zero", 0.0)


def test_read_after_write() -> None:
    graph = build(replace(TINY, layers=1, rows=2, workers=2, batch=1))
    lines = listing(dependencies(graph, decompose(graph)))
    # A norm reads its row, a linear layer all rows.
    assert "embed[0:1] -> layers.0.attn_norm[0:1]" in lines
    assert "layers.0.attn_norm[1:2] -> " + " ".join(f"layers.0.qkv[{i}:{i + 8}]" for i in range(0, 64, 8)) in lines
    # Q heads 0 and 1, K head 0 and V head 0 belong to KV head 0; the rest to KV head 1.
    for column, kv_head in ((0, 0), (8, 0), (16, 1), (24, 1), (32, 0), (40, 1), (48, 0), (56, 1)):
        part = f"/{kv_head}" if kv_head else ""
        assert f"layers.0.qkv[{column}:{column + 8}] -> layers.0.attention[0:1]{part}" in lines


def test_write_after_read_and_write_after_write() -> None:
    lines = pairs_of(
        Linear("first", -1, "h", "wm", "x"),
        RmsNorm("norm", -1, "x", "w", "h2", 1e-5),
        Linear("second", -1, "h2", "wm", "x"),
        widths={"h": 16, "wm": 16, "w": 16, "x": 16, "h2": 16},
    )
    assert lines == [
        "first[0:8] -> norm[0:1] norm[1:2]",  # read after write
        "first[8:16] -> norm[0:1] norm[1:2]",
        "first[0:8] -> second[0:8]",  # write after write
        "first[8:16] -> second[8:16]",
        "norm[0:1] -> second[0:8] second[8:16]",  # read after write of h2, write after read of x
        "norm[1:2] -> second[0:8] second[8:16]",
    ]
