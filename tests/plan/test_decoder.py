"""Which plans the cluster worker can run: shipped ones by their published sizes, altered ones by reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kgen.frontend.build import build_graph
from kgen.ir.graph import AttentionDeal, Graph, Worker
from kgen.ir.operator import Operator
from kgen.ir.tensor import DType, Space, Tensor
from kgen.passes.pipeline import CompileError, compile_graph
from kgen.paths import shipped_spec
from kgen.plan.decoder import Decoder, cluster_decoder, find_decoder
from kgen.plan.plan import Plan
from kgen.spec.load import parse_spec
from tests.graphs import Model, build

SMALL = Model(
    "small", 256, 512, 2, 8, 8, 64, 96, batch=2, context=32, kv_page=16, rows=4, workers=3, qk_norm=True
)


def shipped(spec: str, batch: int | None = None) -> Plan:
    path = shipped_spec(spec)
    assert path is not None
    text = path.read_text()
    if batch is not None:
        text = re.sub(r"batch: 1\.\.\d+", f"batch: 1..{batch}", text)
    return compile_graph(build_graph(parse_spec(text))).plan


def decoder_of(plan: Plan) -> Decoder:
    found = find_decoder(plan)
    assert isinstance(found, Decoder), found
    return found


def reasons(graph: Graph) -> list[str]:
    found = find_decoder(compile_graph(graph).plan)
    assert isinstance(found, list)
    return found


def constants(d: Decoder) -> dict[str, Any]:
    """Those of the published configurations."""
    names = ["hidden", "heads", "kv_heads", "head", "ffn", "vocab", "eps"]
    names += ["rope_theta", "rope_factor", "has_q_norm", "has_k_norm"]
    return {name: getattr(d, name) for name in names} | {"layers": len(d.layers)}


LLAMA = {"heads": 32, "kv_heads": 8, "vocab": 128256, "eps": 1e-5, "rope_theta": 500000.0}
LLAMA |= {"has_q_norm": False, "has_k_norm": False}
QWEN = {"kv_heads": 8, "head": 128, "vocab": 151936, "eps": 1e-6, "rope_theta": 1000000.0, "rope_factor": 1.0}
QWEN |= {"has_q_norm": True, "has_k_norm": True}
PUBLISHED = {
    "llama-3.2-1b": LLAMA | {"layers": 16, "hidden": 2048, "head": 64, "ffn": 8192, "rope_factor": 32.0},
    "llama-3.1-8b": LLAMA | {"layers": 32, "hidden": 4096, "head": 128, "ffn": 14336, "rope_factor": 8.0},
    "qwen3-0.6b": QWEN | {"layers": 28, "hidden": 1024, "heads": 16, "ffn": 3072},
    "qwen3-1.7b": QWEN | {"layers": 28, "hidden": 2048, "heads": 16, "ffn": 6144},
    "qwen3-8b": QWEN | {"layers": 36, "hidden": 4096, "heads": 32, "ffn": 12288},
}


# Shared memory has no room for 16 rows of these.
LARGE = ("llama-3.1-8b", "qwen3-8b")


@pytest.mark.parametrize("spec", LARGE)
def test_batches_that_shared_memory_has_no_room_for(spec: str) -> None:
    assert find_decoder(shipped(spec, 16)) == [
        "shared memory has room for 8 rows of this model, fewer than a batch of 16; `batch: 1..8` would fit"
    ]
    assert isinstance(cluster_decoder(shipped(spec)), Decoder)


@pytest.mark.parametrize("spec", PUBLISHED)
def test_decoders_among_the_shipped_specs(spec: str) -> None:
    batch = 8 if spec in LARGE else 16
    plan = shipped(spec)
    found = decoder_of(plan)
    assert constants(found) == PUBLISHED[spec]
    assert (found.kv_page, found.batch, found.rows, found.context) == (64, batch, 16, 8192)
    assert found.scale == found.head**-0.5
    assert (found.has_rope, found.rope_low_freq, found.rope_high_freq) == (True, 1.0, 4.0)
    assert (found.rope_original_context, found.pipelining, found.jit_attention) == (8192, True, True)
    names = [tensor.name for tensor in plan.tensors]
    for i, layer in enumerate(found.layers):
        weights = ["attn_norm", "wqkv", "wo", "ffn_norm", "wgate", "wup", "wdown"]
        numbers = (layer.attention_norm, layer.qkv, layer.output, layer.ffn_norm)
        assert [names[n] for n in (*numbers, layer.gate, layer.up, layer.down)] == [
            f"layers.{i}.{weight}" for weight in weights
        ]
        norms = [None if n is None else names[n] for n in (layer.q_norm, layer.k_norm)]
        has = found.has_q_norm
        assert norms == ([f"layers.{i}.q_norm", f"layers.{i}.k_norm"] if has else [None, None])
    head = "lm_head" if "lm_head" in names else "embed"
    ends = (found.embedding, found.final_norm, found.logits_weight, found.tokens, found.logits, found.sampled)
    assert [names[n] for n in ends] == ["embed", "final_norm", head, "tokens", "y", "tokens.sampled"]
    assert (found.sampled, found.tokens, found.logits) == (plan.sampled, plan.tokens, plan.logits)
    assert [plan.ops[n].name for n in (found.sample_op, found.advance_op)] == ["sample", "advance"]


def test_the_small_decoder_for_gpu_tests() -> None:
    found = decoder_of(shipped("tiny-decoder"))
    sizes = (len(found.layers), found.hidden, found.heads, found.kv_heads, found.head, found.ffn, found.vocab)
    assert sizes == (2, 512, 16, 8, 64, 1024, 512)
    assert (found.batch, found.rows, found.context, found.kv_page) == (4, 16, 512, 16)
    assert (found.has_q_norm, found.has_k_norm, found.eps, found.head_eps) == (True, True, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            "smollm2-135m",
            ["hidden is 576, not a multiple of 256", "there are 3 KV heads, not 8"],
        ),
        ("qwen2.5-0.5b", ["every layer: the QKV projection has a bias"]),
        (
            "tiny",
            [
                "hidden is 72, not a multiple of 256",
                "ffn is 200, not a multiple of 32",
                "vocab is 331, not a multiple of 16",
                "ffn is 200, less than 64 for each of 8 clusters",
                "head is 24, not 64 or 128",
                "there are 2 KV heads, not 8",
            ],
        ),
    ],
)
def test_shipped_specs_that_are_none(spec: str, expected: list[str]) -> None:
    assert find_decoder(shipped(spec)) == expected


def test_queries_and_keys_may_each_lack_a_norm() -> None:
    found = decoder_of(compile_graph(build(replace(SMALL, qk_norm=False))).plan)
    assert [(layer.q_norm, layer.k_norm) for layer in found.layers] == [(None, None)] * 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"hidden": 320}, "hidden is 320, not a multiple of 256"),
        ({"ffn": 520}, "ffn is 520, not a multiple of 32"),
        ({"ffn": 480}, "ffn is 480, less than 64 for each of 8 clusters"),
        ({"vocab": 100}, "vocab is 100, not a multiple of 16"),
        ({"kv_page": 8}, "kv_page is 8, not a multiple of 16"),
        ({"head": 32}, "head is 32, not 64 or 128"),
        ({"head": 256}, "head is 256, not 64 or 128"),
        ({"heads": 16, "kv_heads": 16}, "there are 16 KV heads, not 8"),
        ({"heads": 72}, "9 query heads share a KV head, more than 8"),
        ({"rows": 17}, "a step has 17 rows, more than 16"),
        ({"bias": True}, "every layer: the QKV projection has a bias"),
        ({"layers": 0}, "the model has no layers"),
        ({"hidden": 65536}, "shared memory has no room for a row of this model"),
        (
            {"fused": False},
            "operator `layers.0.o_add` is add, where a decoder has its FFN norm (rmsnorm)",
        ),
    ],
)
def test_models_of_other_sizes_or_kinds(change: dict[str, Any], expected: str) -> None:
    assert reasons(build(replace(SMALL, **change))) == [expected]


@pytest.mark.parametrize("change", [{"head": 128}, {"heads": 64}, {"rows": 16}, {"hidden": 512, "ffn": 512}])
def test_limits_that_are_just_met(change: dict[str, Any]) -> None:
    decoder_of(compile_graph(build(replace(SMALL, **change))).plan)


def changed(graph: Graph, name: str, **fields: Any) -> Graph:
    """The graph with fields of the operator of this name changed."""
    ops: list[Operator] = [replace(op, **fields) if op.name == name else op for op in graph.ops]
    assert ops != list(graph.ops)
    return replace(graph, ops=tuple(ops))


def with_tensors(graph: Graph, *extra: Tensor) -> Graph:
    return replace(graph, tensors=(*graph.tensors, *extra))


BIAS = Tensor("bias", (256,), DType.BF16, Space.WEIGHT, ("bias",))
OTHER = Tensor("other", (4, 256), DType.F32, Space.ACTIVATION)
NORMED = Tensor("normed", (4, 256), DType.BF16, Space.ACTIVATION)
ALTERED: dict[str, tuple[Callable[[Graph], Graph], list[str]]] = {
    "a bias of one layer": (
        lambda g: changed(with_tensors(g, BIAS), "layers.1.o", bias="bias"),
        ["layer 1: the output projection has a bias"],
    ),
    "no residual": (
        lambda g: changed(g, "layers.0.down", residual=None),
        ["layer 0: the down projection does not add the residual stream"],
    ),
    "a residual of QKV": (
        lambda g: changed(g, "layers.1.qkv", residual="qkv"),
        ["layer 1: the QKV projection adds a residual"],
    ),
    "eps of a norm": (
        lambda g: changed(g, "layers.1.ffn_norm", eps=1e-6),
        ["norms of the residual stream have different eps: 1e-06, 1e-05"],
    ),
    "eps of the final norm": (
        lambda g: changed(g, "final_norm", eps=1e-3),
        ["norms of the residual stream have different eps: 1e-05, 0.001"],
    ),
    "attention of one layer": (
        lambda g: changed(g, "layers.1.attention", scale=0.25, k_norm=None),
        [
            "layer 1: the attention has scale 0.25, in layer 0 0.125",
            "layer 1: the attention has has_k_norm false, in layer 0 true",
        ],
    ),
    "another residual stream": (
        lambda g: changed(
            changed(with_tensors(g, OTHER), "layers.0.o", out="other"), "layers.0.ffn_norm", x="other"
        ),
        [
            "layer 0: the output projection does not write the residual stream in place",
            "layer 0: the FFN norm reads something else than the residual stream",
        ],
    ),
    "another residual": (
        lambda g: changed(
            changed(with_tensors(g, OTHER), "layers.0.o", out="other"), "layers.0.down", residual="other"
        ),
        [
            "layer 0: the output projection does not write the residual stream in place",
            "layer 0: the down projection adds another tensor than it writes",
        ],
    ),
    "a norm that is passed over": (
        lambda g: changed(with_tensors(g, NORMED), "layers.1.ffn_norm", out="normed"),
        ["layer 1: the gate and up projection does not read the norm before it"],
    ),
    "QKV of another norm": (
        lambda g: changed(with_tensors(g, NORMED), "layers.1.attn_norm", out="normed"),
        ["layer 1: the QKV projection does not read the norm before it"],
    ),
    "logits of another norm": (
        lambda g: changed(with_tensors(g, NORMED), "final_norm", out="normed"),
        ["the logits do not read the final norm"],
    ),
    "a final norm of something else": (
        lambda g: changed(
            changed(with_tensors(g, OTHER), "layers.1.down", out="other"), "final_norm", x="other"
        ),
        [
            "layer 1: the down projection does not write the residual stream in place",
            "the final norm reads something else than the residual stream",
        ],
    ),
}


@pytest.mark.parametrize(("alter", "expected"), ALTERED.values(), ids=ALTERED.keys())
def test_altered_graphs(alter: Callable[[Graph], Graph], expected: list[str]) -> None:
    assert reasons(alter(build(SMALL))) == expected


def test_several_layers_are_named_in_one_reason() -> None:
    graph = with_tensors(build(replace(SMALL, layers=4)), BIAS)
    for layer in (1, 3):
        graph = changed(graph, f"layers.{layer}.o", bias="bias")
    assert reasons(graph) == ["layers 1, 3: the output projection has a bias"]


def test_an_order_that_is_no_decoders() -> None:
    graph = build(SMALL)
    without = replace(graph, ops=tuple(op for op in graph.ops if op.name != "final_norm"))
    assert reasons(without) == [
        "operator `logits` is logits, where a decoder has its attention norm (rmsnorm)"
    ]
    plan = compile_graph(graph).plan
    assert find_decoder(replace(plan, ops=plan.ops[:4])) == [
        "the graph ends where a decoder has its output projection (linear)"
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sample", "sampling does not read the logits"),
        ("advance", "the sampled tokens are not those of the next step"),
        ("layers.1.attention", "layer 1: the attention does not read the QKV projection"),
        ("layers.1.o", "layer 1: the output projection does not read attention"),
        ("layers.1.down", "layer 1: the down projection does not read the gate and up projection"),
        ("layers.0.attn_norm", "layer 0: the attention norm reads something else than the residual stream"),
    ],
)
def test_operators_that_pass_over_the_one_before(name: str, expected: str) -> None:
    """Few graphs compile to such plans, so the first operand is changed in the plan."""
    plan = compile_graph(build(SMALL)).plan
    ops = [replace(op, operands=(0, *op.operands[1:])) if op.name == name else op for op in plan.ops]
    assert find_decoder(replace(plan, ops=tuple(ops))) == [expected]


def test_the_general_worker_on_request() -> None:
    plan = compile_graph(build(SMALL)).plan
    general = replace(plan, runtime=replace(plan.runtime, worker=Worker.GENERAL))
    assert cluster_decoder(general) == ["the spec asks for the general worker"]
    asked = replace(plan, runtime=replace(plan.runtime, worker=Worker.CLUSTER))
    assert cluster_decoder(asked) == find_decoder(plan)


def test_auto_is_the_cluster_worker_where_it_can_run() -> None:
    plan = compile_graph(build(SMALL)).plan
    assert plan.runtime.worker is Worker.AUTO
    assert isinstance(cluster_decoder(plan), Decoder)
    other = compile_graph(build(replace(SMALL, vocab=100))).plan
    assert cluster_decoder(other) == ["vocab is 100, not a multiple of 16"]


def test_options_of_the_worker() -> None:
    plan = compile_graph(build(SMALL)).plan
    options = {AttentionDeal.AUTO: True, AttentionDeal.AOT: False, AttentionDeal.JIT: True}
    for deal, jit in options.items():
        found = decoder_of(replace(plan, runtime=replace(plan.runtime, attention=deal, pipelining=jit)))
        assert (found.jit_attention, found.pipelining) == (jit, jit)


def test_the_compiler_refuses_a_cluster_worker_that_cannot_run_the_model() -> None:
    graph = build(replace(SMALL, vocab=100))
    asked = replace(graph, runtime=replace(graph.runtime, worker=Worker.CLUSTER))
    with pytest.raises(CompileError, match="cannot run this model: vocab is 100, not a multiple of 16"):
        compile_graph(asked)


def test_the_compiler_refuses_a_cluster_worker_on_too_few_sms() -> None:
    graph = build(replace(SMALL, workers=63))
    asked = replace(graph, runtime=replace(graph.runtime, worker=Worker.CLUSTER))
    with pytest.raises(CompileError, match="63 SMs are 7 clusters of 8, fewer than the 8 KV heads"):
        compile_graph(asked)
    enough = build(replace(SMALL, workers=64))
    compile_graph(replace(enough, runtime=replace(enough.runtime, worker=Worker.CLUSTER)))
