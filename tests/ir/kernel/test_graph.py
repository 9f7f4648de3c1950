"""Shapes, calls and costs of kernel graphs, and what breaks the rules of their operators."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kgen.frontend.check import load_kernel
from kgen.frontend.kernel.build import build_kernel
from kgen.ir.kernel.all_reduce import AllReduce
from kgen.ir.kernel.dims import Range, block
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.operator import Cost, Sizes
from kgen.ir.kernel.overlap import AUTO, Overlap, Schedule, Tile, Transfer
from kgen.ir.kernel.tensor import KernelTensor, TensorType
from kgen.ir.tensor import DType
from kgen.spec.load import parse_kernel_spec
from tests.spec.edited import KERNEL

SPECS = sorted((Path(__file__).parents[3] / "specs/kernels").glob("*.yaml"))
RS = next(path for path in SPECS if path.stem == "gemm_rs")


def shipped(name: str) -> KernelGraph:
    return load_kernel(RS.with_name(f"{name}.yaml"))[1]


def test_the_graph_of_a_spec() -> None:
    graph = build_kernel(parse_kernel_spec(KERNEL))
    assert (graph.name, graph.world, graph.deterministic) == ("small", Range(2, 8), True)
    assert graph.dims == {"M": Range(1, 64), "N": 32, "K": 64}
    assert [str(tensor) for tensor in graph.tensors] == [
        "a: bf16 [M, K] sharded on axis 0",
        "b: bf16 [N, K]",
        "c: bf16 [M, N]",
        "a_full: bf16 [M, K]",
    ]
    assert [op.name for op in graph.ops] == ["all_gather", "matmul"]
    assert (graph.inputs, graph.outputs, graph.runtime_dims) == (("a", "b"), ("c",), ("M",))
    assert graph.matmul is graph.ops[1]
    wanted = Overlap(Schedule.INTER_SM, 8, Transfer.TMA, Tile(128, 256, 64), 4)
    assert graph.overlap == wanted
    assert graph.check() == []


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_shipped_kernels(path: Path) -> None:
    spec, graph = load_kernel(path)
    assert spec.name == path.stem
    assert graph.overlap == AUTO
    assert graph.dims["M"] == Range(1, 32768)
    assert graph.worlds == ((1,) if path.stem == "gemm" else graph.worlds)
    assert {1, 2, 4, 8}.issuperset(graph.worlds) or graph.worlds == tuple(range(1, 9))
    assert graph.check() == []
    assert graph.call_problems({"M": 64}, graph.worlds[-1]) == []


def test_local_shapes() -> None:
    graph = shipped("gemm_rs")
    shapes = {name: type_.local_shape(graph.dims, {"M": 64}, 4) for name, type_ in graph.types.items()}
    assert shapes == {"a": (64, 2048), "b": (4096, 2048), "c": (64, 4096), "d": (16, 4096)}
    assert graph.types["d"].local_symbols() == ("M / world", "N")
    assert graph.types["d"].local_bytes(graph.dims, {"M": 64}, 4) == 16 * 4096 * 2


def test_blocks_cover_an_axis_whatever_the_number_of_ranks() -> None:
    assert [block(8, 4, rank) for rank in range(4)] == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert [block(7, 4, rank) for rank in range(4)] == [(0, 2), (2, 4), (4, 6), (6, 7)]
    assert [block(1, 4, rank) for rank in range(4)] == [(0, 1), (1, 1), (1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("sizes", "world", "problems"),
    [
        ({"M": 64}, 4, []),
        ({}, 4, ["M is not given"]),
        ({"M": 0}, 9, ["world is 9, which is not in 1..8", "M is 0, which is not in 1..32768"]),
        ({"M": 64, "N": 4096}, 4, ["N is not decided at run time"]),
        ({"M": 63}, 4, []),
        ({"M": 2999}, 2, []),
        ({"M": 1}, 2, []),
        ({"M": 63}, 3, ["K is 8192, which 3 ranks cannot divide"]),
    ],
)
def test_calls_that_are_refused(sizes: dict[str, int], world: int, problems: list[str]) -> None:
    assert shipped("gemm_rs").call_problems(sizes, world) == problems


def test_rows_of_a_size_that_the_call_gives() -> None:
    text = KERNEL.replace("K: 64", "K: 1..64")
    graph = build_kernel(parse_kernel_spec(text))
    (problem,) = graph.call_problems({"M": 8, "K": 60}, 2)
    assert problem == "K is 60, but a row of 'a' has 60 elements, which is not a multiple of 8"


def test_worlds_are_those_that_every_size_allows() -> None:
    text = RS.read_text().replace("K: 8192", "K: 96")
    assert build_kernel(parse_kernel_spec(text)).worlds == (1, 2, 3, 4, 6)


M, N, K = 64, 4096, 8192


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("all_gather", {"all_gather": Cost(0, 5 * M * 8192 // 4 * 2, 3 * M * 8192 // 4 * 2)}),
        (
            "reduce_scatter",
            {"reduce_scatter": Cost(3 * M * 8192 // 4, 2 * M * 8192 * 2, 3 * M * 8192 // 4 * 2)},
        ),
        (
            "all_reduce",
            {"all_reduce": Cost(3 * M * 8192 // 4, (2 * 4 + 5) * M * 8192 // 4 * 2, 6 * M * 8192 // 4 * 2)},
        ),
        ("all_to_all", {"all_to_all": Cost(0, 2 * M * 8192 // 4 * 2, 3 * M * 8192 // 16 * 2)}),
        (
            "ag_gemm",
            {
                "all_gather": Cost(0, 5 * M * K // 4 * 2, 3 * M * K // 4 * 2),
                "matmul": Cost(2 * M * N * K, 2 * (M * K + N * K + M * N), 0),
            },
        ),
        (
            "gemm_rs",
            {
                "matmul": Cost(2 * M * N * K // 4, 2 * ((M * K + N * K) // 4 + M * N), 0),
                "reduce_scatter": Cost(3 * M * N // 4, 2 * M * N * 2, 3 * M * N // 4 * 2),
            },
        ),
    ],
)
def test_costs_on_four_ranks(name: str, wanted: dict[str, Cost]) -> None:
    assert shipped(name).costs({"M": M}, 4) == wanted


def test_one_shot_sends_more_and_adds_more() -> None:
    graph = shipped("all_reduce")
    (op,) = graph.ops
    assert isinstance(op, AllReduce)
    whole = M * 8192 * 2
    cost = op.one_shot_cost(graph.types, Sizes(graph.dims, {"M": M}, 4))
    assert cost == Cost(3 * M * 8192, 5 * whole, 3 * whole)


def test_alone_a_rank_sends_nothing() -> None:
    for path in SPECS:
        _, graph = load_kernel(path)
        costs = graph.costs({"M": 8}, 1)
        assert {cost.link_bytes for cost in costs.values()} == {0}


def test_graphs_that_break_the_rules() -> None:
    graph = shipped("gemm_rs")
    whole = tuple(
        KernelTensor(t.name, replace(t.type, shard=None) if t.name == "a" else t.type) for t in graph.tensors
    )
    assert replace(graph, tensors=whole).check() == ["matmul: matmul: 'b' is bf16 [N, K] sharded on axis 1"]
    other = tuple(
        KernelTensor(t.name, TensorType(("M", "K"), DType.BF16, 0)) if t.name == "d" else t
        for t in graph.tensors
    )
    assert replace(graph, tensors=other).check() == [
        "reduce_scatter: `d` is bf16 [M, K] sharded on axis 0, but it writes bf16 [M, N] sharded on axis 0"
    ]
    assert replace(graph, tensors=graph.tensors[:-1]).check() == [
        "matmul: there is no tensor `c`",
        "reduce_scatter: there is no tensor `c`",
    ]
