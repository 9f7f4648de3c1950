"""A plan made by hand: one attention layer, one head, every column of every table in use."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kgen.ir.graph import Runtime
from kgen.ir.tensor import DType, Space
from kgen.plan.plan import EventRow, OpRow, Plan, TaskRun, TensorRow, Variant


@dataclass(frozen=True)
class HandMade:
    """Stands in for the compiler's result: rendering reads nothing but the plan."""

    plan: Plan


def _tensor(name: str, space: Space, dtype: DType, shape: tuple[int, ...], offset: int) -> TensorRow:
    rows = shape[0] if len(shape) > 1 else 1
    stride = -(-shape[-1] // 32) * 32
    sources = (f"model.{name}",) if space is Space.WEIGHT else ()
    return TensorRow(name, space, dtype, shape, rows, shape[-1], stride, offset, sources)


def make_plan(name: str = "hand") -> Plan:
    weight, activation = Space.WEIGHT, Space.ACTIVATION
    tensors = (
        _tensor("embed.weight", weight, DType.BF16, (10, 8), 0),
        _tensor("layers.0.qkv.weight", weight, DType.BF16, (24, 8), 768),
        _tensor("tokens", activation, DType.I32, (4,), 0),
        _tensor("x", activation, DType.F32, (4, 8), 256),
        _tensor("qkv", activation, DType.F32, (4, 24), 768),
        _tensor("a", activation, DType.BF16, (4, 8), 1280),
        _tensor("logits", activation, DType.F32, (2, 10), 1536),
        _tensor("sampled", activation, DType.I32, (2,), 1792),
    )
    variants = (
        _variant("embedding", "Embedding", (("hidden", 8),), ("tokens", "table", "out")),
        _variant(
            "linear",
            "Linear",
            (("n", 24), ("k", 8), ("has_bias", False), ("has_residual", False)),
            ("x", "weight", "out"),
        ),
        _variant("attention", "Attention", (("heads", 1), ("scale", 0.1), ("eps", 1e-6)), ("qkv", "out")),
        _variant("logits", "Logits", (("n", 10), ("k", 8)), ("x", "weight", "out")),
        _variant("sample", "Sample", (("vocab", 10),), ("logits", "out")),
        _variant("advance", "Advance", (), ("sampled", "tokens")),
        _variant("empty", "Empty", (), ()),
    )
    ops = (
        OpRow("embed", 0, -1, (2, 0, 3)),
        OpRow("layers.0.qkv", 1, -1, (3, 1, 4)),
        OpRow("layers.0.attention", 2, 0, (4, 5)),
        OpRow("logits", 3, -1, (5, 0, 6)),
        OpRow("sample", 4, -1, (6, 7)),
        OpRow("advance", 5, -1, (7, 2)),
        OpRow("join", 6, -1, ()),
    )
    runs = (
        TaskRun(0, False, 1, 0, 4, 4, 4, 0, 0, 0, 1, 0),
        TaskRun(1, False, 3, 0, 8, 8, 24, 0, 0, 1, 2, 1),
        TaskRun(2, True, 2, 0, 1, 1, 2, 0, 0, 2, 3, -1),
        TaskRun(6, False, 1, 0, 0, 0, 0, 0, 0, 3, 4, 0),
        TaskRun(3, False, 2, 0, 8, 8, 10, 0, 0, 4, 5, 0),
        TaskRun(4, False, 2, 0, 1, 1, 2, 0, 0, 5, 6, 2),
        TaskRun(5, False, 1, 0, 1, 1, 1, 0, 0, 6, 0, 0),
    )
    events = (
        EventRow(1, 0, 1),
        EventRow(1, 1, 3),
        EventRow(3, 4, 2),
        EventRow(2, 6, 1),
        EventRow(1, 7, 2),
        EventRow(2, 9, 2),
        EventRow(2, 11, 1),
    )
    return Plan(
        name=name,
        digest="00ff" * 16,
        runtime=Runtime(batch=2, context=16, kv_page=8, rows=4, workers=4),
        dims=(("hidden", 8), ("vocab", 10)),
        tensors=tensors,
        variants=variants,
        ops=ops,
        runs=runs,
        events=events,
        queue_capacity=2,
        weight_bytes=2304,
        arena_bytes=2048,
        vocab=10,
        kv_layers=1,
        kv_heads=1,
        head=8,
        tokens=2,
        sampled=7,
        logits=6,
    )


def _variant(
    kind: str, cpp: str, constants: tuple[tuple[str, bool | int | float], ...], operands: tuple[str, ...]
) -> Variant:
    return Variant(kind, f"mpk::tasks::{cpp}", f"mpk/tasks/{kind}.hpp", constants, operands)


@pytest.fixture(scope="session")
def hand_made() -> HandMade:
    return HandMade(make_plan())
