"""What kernels compute, against NumPy written out here; every operator over 1 to 8 ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kgen.frontend.check import load_kernel
from kgen.frontend.kernel.build import build_kernel
from kgen.ir.kernel.dims import block
from kgen.ir.kernel.graph import KernelGraph
from kgen.spec.load import parse_kernel_spec

SPECS = Path(__file__).parents[3] / "specs/kernels"
WORLDS = [1, 2, 4, 8]
Ranks = list[np.ndarray]


def graph_of(name: str, **dims: int) -> KernelGraph:
    """A shipped kernel with other sizes, all of them compiled in."""
    text = (SPECS / f"{name}.yaml").read_text()
    start = text.index("dims: {")
    sizes = ", ".join(f"{key}: {value}" for key, value in dims.items())
    rest = text[start:]
    return build_kernel(parse_kernel_spec(f"{text[:start]}dims: {{{sizes}}}{rest[rest.index(chr(10)) :]}"))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def each(world: int, *shape: int, seed: int = 1) -> Ranks:
    return [normal(*shape, seed=seed + rank) for rank in range(world)]


def rows(whole: np.ndarray, world: int) -> Ranks:
    return [whole[slice(*block(len(whole), world, rank))] for rank in range(world)]


def columns(whole: np.ndarray, world: int) -> Ranks:
    return np.split(whole, world, axis=1)


def assert_ranks(found: Ranks, wanted: Ranks) -> None:
    assert len(found) == len(wanted)
    for mine, reference in zip(found, wanted, strict=True):
        assert mine.dtype == np.float64
        np.testing.assert_allclose(mine, reference, rtol=1e-12, atol=1e-12)


def bf16(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("m", [1, 13, 16])
def test_all_gather(m: int, world: int) -> None:
    x = normal(m, 24)
    found = graph_of("all_gather", M=m, N=24).evaluate({"x": rows(x, world)})
    assert_ranks(found["y"], [x] * world)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("m", [1, 13, 16])
def test_reduce_scatter(m: int, world: int) -> None:
    x = each(world, m, 24)
    found = graph_of("reduce_scatter", M=m, N=24).evaluate({"x": x})
    assert_ranks(found["y"], rows(sum(x), world))


@pytest.mark.parametrize("world", WORLDS)
def test_all_reduce(world: int) -> None:
    x = each(world, 5, 8)
    found = graph_of("all_reduce", M=5, N=8).evaluate({"x": x})
    assert_ranks(found["y"], [sum(x)] * world)


@pytest.mark.parametrize("world", WORLDS)
def test_all_to_all_and_back(world: int) -> None:
    x = normal(16, 64)
    graph = graph_of("all_to_all", M=16, N=64)
    there = graph.evaluate({"x": rows(x, world)})["y"]
    assert_ranks(there, columns(x, world))
    text = (SPECS / "all_to_all.yaml").read_text().replace("split: 1, concat: 0}", "split: 0, concat: 1}")
    text = text.replace("shard: {axis: 0}", "shard: {axis: 9}").replace(
        "shard: {axis: 1}", "shard: {axis: 0}"
    )
    back = build_kernel(parse_kernel_spec(text.replace("shard: {axis: 9}", "shard: {axis: 1}")))
    assert_ranks(back.evaluate({"x": there})["y"], rows(x, world))


@pytest.mark.parametrize("world", WORLDS)
def test_all_gather_and_gemm(world: int) -> None:
    a, b = normal(16, 24), each(world, 8, 24)
    graph = graph_of("ag_gemm", M=16, N=8, K=24)
    found = graph.evaluate({"a": rows(a, world), "b": b}, every=True)
    assert_ranks(found["a_full"], [a] * world)
    assert_ranks(found["c"], [np.einsum("mk,nk->mn", a, mine) for mine in b])
    assert set(graph.evaluate({"a": rows(a, world), "b": b})) == {"c"}


@pytest.mark.parametrize("world", WORLDS)
def test_all_gather_and_gated_gemm(world: int) -> None:
    a, gate, up = normal(16, 24), each(world, 8, 24), each(world, 8, 24, seed=50)
    graph = graph_of("ag_gemm_silu_mul", M=16, N=8, K=24)
    found = graph.evaluate({"a": rows(a, world), "gate": gate, "up": up})
    wanted = []
    for g, u in zip(gate, up, strict=True):
        linear = a @ g.T
        wanted.append(linear / (1 + np.exp(-linear)) * (a @ u.T))
    assert_ranks(found["c"], wanted)


@pytest.mark.parametrize("world", WORLDS)
def test_gemm_and_sums_over_ranks(world: int) -> None:
    a, b = normal(16, 64), normal(8, 64, seed=3)
    inputs = {"a": columns(a, world), "b": columns(b, world)}
    scattered = graph_of("gemm_rs", M=16, N=8, K=64).evaluate(inputs)
    assert_ranks(scattered["d"], rows(a @ b.T, world))
    reduced = graph_of("gemm_ar", M=16, N=8, K=64).evaluate(inputs, every=True)
    assert_ranks(reduced["d"], [a @ b.T] * world)
    assert_ranks(reduced["c"], [x @ y.T for x, y in zip(inputs["a"], inputs["b"], strict=True)])


OWN_K = """\
kgen: 1
kind: kernel
name: own_k
world: 1..8
dims: {M: 1..64, N: 8, K: 24}
tensors:
  a: {shape: [M, K], dtype: f16}
  b: {shape: [N, K], dtype: f16}
  bias: {shape: [N], dtype: f16}
  r: {shape: [M, N], dtype: f16}
  c: {shape: [M, N], dtype: f16, partial: true}
graph:
  - {op: matmul, in: [a, b], transpose: [false, true], bias: bias, residual: r, out: c}
  - {op: all_reduce, in: c, out: d}
outputs: [d]
"""


@pytest.mark.parametrize("world", [1, 3, 8])
def test_every_rank_has_its_own_contraction_and_the_rest_is_added_once(world: int) -> None:
    a, b, bias, r = each(world, 5, 24), each(world, 8, 24, seed=20), normal(8, seed=30), normal(5, 8, seed=40)
    inputs = {"a": a, "b": b, "bias": [bias] * world, "r": [r] * world}
    wanted: Any = bias + r
    for mine, weight in zip(a, b, strict=True):
        wanted = wanted + mine @ weight.T
    found = build_kernel(parse_kernel_spec(OWN_K)).evaluate(inputs, every=True)
    assert_ranks(found["d"], [wanted] * world)
    np.testing.assert_allclose(sum(found["c"]), wanted, rtol=1e-12)


@pytest.mark.parametrize("world", [1, 3, 8])
def test_a_residual_of_the_rows_that_a_rank_gets(world: int) -> None:
    text = OWN_K.replace("{op: all_reduce, in: c, out: d}", "{op: reduce_scatter, in: c, out: d}")
    text = text.replace("r: {shape: [M, N], dtype: f16}", "r: {shape: [M, N], dtype: f16, shard: {axis: 0}}")
    a, b, bias, r = each(world, 5, 24), each(world, 8, 24, seed=20), normal(8, seed=30), normal(5, 8, seed=40)
    inputs = {"a": a, "b": b, "bias": [bias] * world, "r": rows(r, world)}
    wanted: Any = bias + r
    for mine, weight in zip(a, b, strict=True):
        wanted = wanted + mine @ weight.T
    found = build_kernel(parse_kernel_spec(text)).evaluate(inputs, every=True)
    assert_ranks(found["d"], rows(wanted, world))
    np.testing.assert_allclose(sum(found["c"]), wanted, rtol=1e-12)


def test_columns_of_each_rank() -> None:
    """A weight that is sharded on its rows makes an output that is sharded on its columns."""
    text = OWN_K.replace(", partial: true", "").replace("  r: {shape: [M, N], dtype: f16}\n", "")
    text = text.replace("b: {shape: [N, K], dtype: f16", "b: {shape: [N, K], dtype: f16, shard: {axis: 0}")
    text = text.replace("bias: {shape: [N], dtype: f16", "bias: {shape: [N], dtype: f16, shard: {axis: 0}")
    text = text.replace("c: {shape: [M, N], dtype: f16", "c: {shape: [M, N], dtype: f16, shard: {axis: 1}")
    text = text.replace(", residual: r", "").replace("  - {op: all_reduce, in: c, out: d}\n", "")
    graph = build_kernel(parse_kernel_spec(text.replace("[d]", "[c]").replace("N: 8", "N: 32")))
    a, b, bias = normal(5, 24), normal(32, 24, seed=4), normal(32, seed=5)
    found = graph.evaluate({"a": [a] * 4, "b": rows(b, 4), "bias": rows(bias, 4)})
    assert_ranks(found["c"], columns(a @ b.T + bias, 4))


def test_rounding_of_a_fixed_order_is_once() -> None:
    """Summands stay f32, so values that bf16 cannot hold cancel exactly."""
    x = [np.full((2, 8), v) for v in (1.0, 256.0, -256.0)]
    graph = graph_of("all_reduce", M=2, N=8)
    assert_ranks(graph.evaluate({"x": x}, rounded=True)["y"], [np.full((2, 8), 1.0)] * 3)


@pytest.mark.parametrize(("deterministic", "wanted"), [("true", 1.0), ("false", 0.0)])
def test_rounding_of_sums_in_place_is_at_every_addition(deterministic: str, wanted: float) -> None:
    """1 + 512 is not a bf16 number: added in place it becomes 512."""
    text = (SPECS / "all_reduce.yaml").read_text() + f"deterministic: {deterministic}\n"
    graph = build_kernel(parse_kernel_spec(text))
    x = [np.full((2, 8), v) for v in (1.0, 512.0, -512.0)]
    assert_ranks(graph.evaluate({"x": x}, rounded=True)["y"], [np.full((2, 8), wanted)] * 3)


def test_rounded_values_are_those_of_the_dtype() -> None:
    a, b = normal(4, 64), normal(8, 64, seed=3)
    inputs = {"a": columns(a, 2), "b": columns(b, 2)}
    found = graph_of("gemm_rs", M=4, N=8, K=64).evaluate(inputs, rounded=True)["d"]
    exact = bf16(a) @ bf16(b).T
    for mine, wanted in zip(found, rows(exact, 2), strict=True):
        np.testing.assert_array_equal(mine, bf16(mine))
        np.testing.assert_allclose(mine, wanted, rtol=2**-8)
        assert not np.array_equal(mine, wanted)


def test_inputs_of_their_own_dtype_are_taken() -> None:
    a = normal(4, 16).astype(ml_dtypes.bfloat16)
    b = normal(8, 16, seed=1).astype(ml_dtypes.bfloat16)
    _, graph = load_kernel(SPECS / "gemm.yaml")
    wide = a.astype(np.float64) @ b.astype(np.float64).T
    assert_ranks(graph.evaluate({"a": [a], "b": [b]})["c"], [wide])
