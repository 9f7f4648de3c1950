from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from kgen.ir.tensor import DType, Space, Tensor
from kgen.passes.pipeline import compile_graph
from kgen.plan.build import lay_out
from kgen.plan.check import check_plan
from kgen.plan.plan import EventRow, Plan
from tests.graphs import TINY, build


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_graph(build(TINY)).plan


def test_tensors_start_at_multiples_of_256_bytes_in_their_space() -> None:
    rows, sizes = lay_out(
        [
            Tensor("a", (3, 40), DType.BF16, Space.WEIGHT, ("a",)),
            Tensor("x", (2, 40), DType.F32, Space.ACTIVATION),
            Tensor("b", (40,), DType.BF16, Space.WEIGHT, ("b",)),
            Tensor("t", (5,), DType.I32, Space.ACTIVATION),
        ]
    )
    # Rows of 40 elements take 64: 3 * 64 * 2 = 384 bytes, then 128; 2 * 64 * 4 = 512 bytes, then 128.
    assert [(r.name, r.offset, r.rows, r.cols, r.stride) for r in rows] == [
        ("a", 0, 3, 40, 64),
        ("x", 0, 2, 40, 64),
        ("b", 512, 1, 40, 64),
        ("t", 512, 1, 5, 32),
    ]
    assert (sizes[Space.WEIGHT], sizes[Space.ACTIVATION]) == (768, 768)


def test_what_the_engine_needs_to_know(plan: Plan) -> None:
    assert (plan.vocab, plan.kv_layers, plan.kv_heads, plan.head) == (83, 2, 2, 8)
    assert [plan.tensors[i].name for i in (plan.tokens, plan.sampled, plan.logits)] == [
        "tokens",
        "sampled",
        "logits",
    ]
    assert plan.runtime == build(TINY).runtime
    assert dict(plan.dims)["hidden"] == 40
    layers = {op.name: op.layer for op in plan.ops}
    assert [layers[f"layers.{i}.attention"] for i in range(2)] == [0, 1]
    assert layers["embed"] == layers["logits"] == -1


def test_the_digest_is_over_name_and_weights(plan: Plan) -> None:
    weights = [
        [t.name, t.dtype.value, list(t.shape), t.stride, t.offset]
        for t in plan.tensors
        if t.space is Space.WEIGHT
    ]
    text = json.dumps(["tiny", weights], separators=(",", ":"))
    assert plan.digest == hashlib.sha256(text.encode()).hexdigest()
    same = compile_graph(build(replace(TINY, batch=1, rows=9, workers=5))).plan
    assert same.digest == plan.digest
    for other in (replace(TINY, name="other"), replace(TINY, ffn=80), replace(TINY, tied=False)):
        assert compile_graph(build(other)).plan.digest != plan.digest


def test_a_plan_fits_together(plan: Plan) -> None:
    assert check_plan(plan) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queue_capacity": 4}, "a queue of 4 does not fit 8 tasks"),
        ({"queue_capacity": 12}, "a queue of 12 does not fit 8 tasks"),
        ({"weight_bytes": 256}, "tensors of weight memory end at byte"),
        ({"arena_bytes": 256}, "tensors of activation memory end at byte"),
    ],
)
def test_sizes_that_do_not_fit(plan: Plan, change: dict[str, int], message: str) -> None:
    assert message in check_plan(replace(plan, **change))[0]


def test_counters_last_for_the_longest_call(plan: Plan) -> None:
    """With a context of 2^32 steps no event may be triggered more than once a step, and some are."""
    most = max(event.threshold for event in plan.events)
    assert most > 1
    longest = (2**32 - 1) // most
    for context, problems in ((longest, 0), (longest + 1, 1)):
        runtime = replace(plan.runtime, context=context)
        found = check_plan(replace(plan, runtime=runtime))
        assert len(found) >= problems
        assert (found == []) == (problems == 0)
        assert all("its counter ends at 4294967295" in problem for problem in found)


def test_tables_that_do_not_agree(plan: Plan) -> None:
    event = plan.events[3]
    for other, message in (
        (EventRow(event.threshold + 1, event.first, event.count), "event 3 opens after"),
        (
            EventRow(event.threshold, event.first + 1, event.count),
            "event 3 releases a task that waits for another",
        ),
        (EventRow(event.threshold, event.first, event.count - 1), "tasks are not what"),
    ):
        events = (*plan.events[:3], other, *plan.events[4:])
        assert any(message in problem for problem in check_plan(replace(plan, events=events)))
    moved = (replace(plan.tensors[0], offset=128), *plan.tensors[1:])
    assert "lies at byte 128" in check_plan(replace(plan, tensors=moved))[0]
