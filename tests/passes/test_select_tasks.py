from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from kgen.ir.attention import Rope
from kgen.passes.decompose import decompose
from kgen.passes.select_tasks import select_tasks
from kgen.plan.plan import Variant
from kgen.plan.task_templates import TEMPLATES, Selection
from tests.graphs import TINY, Model, build


def select(model: Model) -> dict[str, tuple[Variant, tuple[str, ...]]]:
    graph = build(model)
    s: Selection = select_tasks(graph, decompose(graph))
    return {
        op.name: (s.variants[v], t) for op, v, t in zip(graph.ops, s.variant_of, s.tensors_of, strict=True)
    }


def test_operators_with_equal_constants_share_a_variant() -> None:
    graph = build(replace(TINY, layers=3))
    selection = select_tasks(graph, decompose(graph))
    names = {op.name: v for op, v in zip(graph.ops, selection.variant_of, strict=True)}
    for part in ("qkv", "attention", "o", "swiglu", "down"):
        assert len({names[f"layers.{i}.{part}"] for i in range(3)}) == 1
    assert names["layers.0.attn_norm"] == names["layers.2.ffn_norm"] == names["final_norm"]
    assert names["layers.0.o"] != names["layers.0.down"]
    assert [v.kind for v in selection.variants] == [
        *(
            "embedding",
            "rmsnorm",
            "linear",
            "attention",
            "linear",
            "swiglu",
            "linear",
            "logits",
            "sample",
            "advance",
        )
    ]
    assert selection.empty is None


def test_slots_and_constants() -> None:
    chosen = select(replace(TINY, bias=True, qk_norm=True, rope=Rope(5e5, 8.0, 1.0, 4.0, 8192)))
    variant, tensors = chosen["layers.1.qkv"]
    assert variant == Variant(
        kind="linear",
        cpp_type="mpk::tasks::Linear",
        header="mpk/tasks/linear.hpp",
        constants=(("n", 64), ("k", 40), ("has_bias", True), ("has_residual", False)),
        operands=("x", "weight", "out", "bias"),
    )
    assert tensors == ("h", "layers.1.wqkv", "qkv", "layers.1.bqkv")
    variant, tensors = chosen["layers.1.down"]
    assert dict(variant.constants) == {"n": 40, "k": 72, "has_bias": False, "has_residual": True}
    assert dict(zip(variant.operands, tensors, strict=True)) == {
        "x": "f",
        "weight": "layers.1.wdown",
        "out": "x",
        "residual": "x",
    }
    variant, tensors = chosen["layers.1.attention"]
    assert list(variant.constants) == [
        ("heads", 4),
        ("kv_heads", 2),
        ("head", 8),
        ("kv_page", 4),
        ("scale", 8**-0.5),
        ("eps", 1e-5),
        ("has_q_norm", True),
        ("has_k_norm", True),
        ("has_rope", True),
        ("rope_theta", 5e5),
        ("rope_factor", 8.0),
        ("rope_low_freq", 1.0),
        ("rope_high_freq", 4.0),
        ("rope_original_context", 8192),
    ]
    assert tensors == ("qkv", "a", "layers.1.q_norm", "layers.1.k_norm")


def test_attention_without_rope_and_norms() -> None:
    variant, tensors = select(replace(TINY, rope=None))["layers.0.attention"]
    constants = dict(variant.constants)
    assert not any(constants[flag] for flag in ("has_q_norm", "has_k_norm", "has_rope"))
    assert tensors == ("qkv", "a")


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_row_agrees_with_its_operator(kind: str) -> None:
    row = TEMPLATES[kind]
    words = re.findall("[A-Z][a-z]*", row.cpp_type.removeprefix("mpk::tasks::"))
    assert row.header == f"mpk/tasks/{kind}.hpp"
    assert "".join(words).lower() == kind.replace("_", "")
    if row.family is not None:
        names = {f.name for f in fields(row.family)}
        assert {slot.rstrip("?") for slot in row.slots} <= names
