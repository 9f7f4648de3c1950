"""A spec becomes the graph that it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.diagnostics import SpecError
from kgen.frontend.build import build_graph
from kgen.ir.attention import Attention, Rope
from kgen.ir.elementwise import Add, SiluMul
from kgen.ir.embedding import Embedding
from kgen.ir.graph import AttentionDeal, Runtime, Worker
from kgen.ir.linear import Linear, Logits, SwiGlu
from kgen.ir.rmsnorm import RmsNorm
from kgen.ir.sample import Advance, Sample
from kgen.ir.tensor import DType, Space, Tensor
from kgen.spec.load import load_spec, parse_spec
from tests.spec.edited import BASE

SPECS = sorted((Path(__file__).parents[2] / "specs/models").glob("*.yaml"))
BF16, F32, I32 = DType.BF16, DType.F32, DType.I32


def test_operators_of_a_small_spec() -> None:
    graph = build_graph(parse_spec(BASE))
    rope = Rope(10000.0)
    assert graph.name == "small"
    assert graph.runtime == Runtime(batch=4, context=96, kv_page=16, rows=16, workers=132)
    assert graph.dims == {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head": 16, "vocab": 300}
    assert list(graph.ops) == [
        Embedding("embedding", -1, "tokens", "embed", "x"),
        RmsNorm("layers.0.norm", 0, "x", "layers.0.norm", "h", 1e-5),
        Linear("layers.0.wqkv", 0, "h", "layers.0.wqkv", "qkv"),
        Attention("layers.0.attention", 0, "qkv", "a", 0, 4, 2, 16, 0.25, rope),
        Linear("layers.0.wo", 0, "a", "layers.0.wo", "x", None, "x"),
        RmsNorm("layers.1.norm", 1, "x", "layers.1.norm", "h", 1e-5),
        Linear("layers.1.wqkv", 1, "h", "layers.1.wqkv", "qkv"),
        Attention("layers.1.attention", 1, "qkv", "a", 1, 4, 2, 16, 0.25, rope),
        Linear("layers.1.wo", 1, "a", "layers.1.wo", "x", None, "x"),
        RmsNorm("final", -1, "x", "final", "h", 1e-5),
        Logits("logits", -1, "h", "embed", "y"),
        Sample("sample", -1, "y", "tokens.sampled"),
        Advance("advance", -1, "tokens.sampled", "tokens"),
    ]


def test_tensors_in_the_order_of_first_use() -> None:
    graph = build_graph(parse_spec(BASE))
    weight, activation = Space.WEIGHT, Space.ACTIVATION
    assert list(graph.tensors) == [
        Tensor("tokens", (16,), I32, activation),
        Tensor("embed", (300, 64), BF16, weight, ("embed",)),
        Tensor("x", (16, 64), F32, activation),
        Tensor("layers.0.norm", (64,), BF16, weight, ("norm.0",)),
        Tensor("h", (16, 64), BF16, activation),
        Tensor("layers.0.wqkv", (128, 64), BF16, weight, ("qkv.0",)),
        Tensor("qkv", (16, 128), F32, activation),
        Tensor("a", (16, 64), BF16, activation),
        Tensor("layers.0.wo", (64, 64), BF16, weight, ("o.0",)),
        Tensor("layers.1.norm", (64,), BF16, weight, ("norm.1",)),
        Tensor("layers.1.wqkv", (128, 64), BF16, weight, ("qkv.1",)),
        Tensor("layers.1.wo", (64, 64), BF16, weight, ("o.1",)),
        Tensor("final", (64,), BF16, weight, ("final",)),
        Tensor("y", (4, 300), F32, activation),
        Tensor("tokens.sampled", (4,), I32, activation),
    ]


def test_the_other_operators() -> None:
    text = BASE.replace(
        "  - {op: rmsnorm, in: [x, final]",
        "  - {op: rmsnorm, in: [x, final], eps: 1e-6, out: h}\n"
        "  - {op: linear, in: [h, wup, bup], out: g}\n"
        "  - {op: linear, in: [h, wup], out: u}\n"
        "  - {op: silu_mul, in: [g, u], out: f}\n"
        "  - {op: linear, in: [f, wdown], out: d}\n"
        "  - {op: add, in: [d, x], out: x}\n"
        "  - {op: swiglu, in: [h, wup, wup], out: f}\n"
        "  - {op: linear, in: [f, wdown], residual: x, out: x}\n"
        "  - {op: rmsnorm, in: [x, final]",
    ).replace(
        "  final:",
        "  wup: {shape: [3 * hidden, hidden], dtype: bf16, source: up}\n"
        "  bup: {shape: [3 * hidden], dtype: bf16, source: bias}\n"
        "  wdown: {shape: [hidden, 3 * hidden], dtype: bf16, source: down}\n"
        "  final:",
    )
    graph = build_graph(parse_spec(text))
    assert list(graph.ops[9:18]) == [
        RmsNorm("final", -1, "x", "final", "h", 1e-6),
        Linear("wup", -1, "h", "wup", "g", "bup"),
        Linear("wup_2", -1, "h", "wup", "u"),
        SiluMul("silu_mul", -1, "g", "u", "f"),
        Linear("wdown", -1, "f", "wdown", "d"),
        Add("add", -1, "d", "x", "x"),
        SwiGlu("swiglu", -1, "h", "wup", "wup", "f"),
        Linear("wdown_2", -1, "f", "wdown", "x", None, "x"),
        RmsNorm("final_2", -1, "x", "final", "h", 1e-5),
    ]
    types = {name: (graph.by_name[name].shape, graph.by_name[name].dtype) for name in "gufd"}
    assert types == {
        "g": ((16, 192), F32),
        "u": ((16, 192), F32),
        "f": ((16, 192), BF16),
        "d": ((16, 64), F32),
    }


def test_attention_in_full() -> None:
    op = (
        "{op: attention, in: qkv, heads: 2 * kv_heads, kv_heads: 2, head: head, "
        "q_norm: qn, k_norm: kn, eps: 1e-6, scale: 0.5, "
        "rope: {theta: 500000, scaling: {type: llama3, factor: 32, low_freq_factor: 1, "
        "high_freq_factor: 4, original_context: 8192}}, out: a}"
    )
    text = BASE.replace("{op: attention, in: qkv, rope: {theta: 10000}, out: a}", op).replace(
        "  final:",
        "  qn: {shape: [head], dtype: bf16, repeat: layers, source: 'qn.{i}'}\n"
        "  kn: {shape: [16], dtype: bf16, source: kn}\n  final:",
    )
    attention = build_graph(parse_spec(text)).ops[7]
    assert attention == Attention(
        "layers.1.attention",
        1,
        "qkv",
        "a",
        1,
        4,
        2,
        16,
        0.5,
        Rope(500000.0, 32.0, 1.0, 4.0, 8192),
        "layers.1.qn",
        "kn",
        1e-6,
    )


def test_dims_may_be_written_in_any_order() -> None:
    text = BASE.replace("hidden: 64", "hidden: (heads - 1) * head + extra, extra: 2*8")
    assert build_graph(parse_spec(text)).dims["hidden"] == 64


def test_declared_activations_change_nothing() -> None:
    declared = (
        "  tokens: {shape: [rows], dtype: i32}\n  y: {shape: [batch, vocab], dtype: f32}\n"
        "  h: {shape: [rows, hidden], dtype: bf16}\n  final:"
    )
    assert build_graph(parse_spec(BASE.replace("  final:", declared))) == build_graph(parse_spec(BASE))


@pytest.mark.parametrize(
    ("batch", "workers", "runtime"),
    [
        (None, None, Runtime(4, 96, 16, 16, 132)),
        (1, 8, Runtime(1, 96, 16, 16, 8)),
        (3, None, Runtime(3, 96, 16, 16, 132)),
    ],
)
def test_limits_can_be_replaced(batch: int | None, workers: int | None, runtime: Runtime) -> None:
    graph = build_graph(parse_spec(BASE), batch=batch, workers=workers)
    assert graph.runtime == runtime
    assert graph.by_name["y"].shape == (runtime.batch, 300)


def test_rows_follow_a_large_batch() -> None:
    graph = build_graph(parse_spec(BASE.replace("1..4", "1..40")))
    assert graph.runtime.rows == 40
    assert graph.by_name["x"].shape == (40, 64)


@pytest.mark.parametrize(
    ("batch", "workers", "field"), [(5, None, "batch"), (0, None, "batch"), (1, 0, "workers")]
)
def test_replaced_limits_are_checked(batch: int, workers: int | None, field: str) -> None:
    with pytest.raises(SpecError, match=f"runtime.{field}"):
        build_graph(parse_spec(BASE), batch=batch, workers=workers)


# Parameters of the published checkpoints; transformers counts a shared table once.
PARAMETERS = {
    "smollm2-135m": 134_515_008,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.1-8b": 8_030_261_248,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-8b": 8_190_735_360,
    "qwen2.5-0.5b": 494_032_768,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_shipped_specs_have_the_published_number_of_parameters(name: str) -> None:
    path = next(path for path in SPECS if path.stem == name)
    weights = [t for t in build_graph(load_spec(path)).tensors if t.space is Space.WEIGHT]
    assert sum(t.shape[0] * (t.shape[1] if len(t.shape) > 1 else 1) for t in weights) == PARAMETERS[name]


def test_every_shipped_spec_is_known_here() -> None:
    assert {path.stem for path in SPECS} == {*PARAMETERS, "tiny", "tiny-decoder"}


def test_how_a_model_runs_is_the_choice_of_the_spec() -> None:
    text = BASE.replace("kv_page: 16", "kv_page: 16, worker: general, pipelining: false, attention: aot")
    runtime = build_graph(parse_spec(text)).runtime
    assert (runtime.worker, runtime.pipelining, runtime.attention) == (
        Worker.GENERAL,
        False,
        AttentionDeal.AOT,
    )


def test_dims_may_follow_each_other_in_a_long_chain() -> None:
    links = "".join(f", d{i}: d{i + 1}" for i in range(1500))
    graph = build_graph(parse_spec(BASE.replace("vocab: 300", f"vocab: d0{links}, d1500: 300")))
    assert graph.dims["vocab"] == graph.dims["d1500"] == 300
