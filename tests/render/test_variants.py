import struct
from dataclasses import replace
from typing import Any

import pytest

from kgen.render.variants import constant, headers, make_variants


def test_structs_are_named_by_kind_and_index(hand_made: Any) -> None:
    views = make_variants(hand_made.plan)
    assert [view.struct for view in views] == [
        "Embedding0",
        "Linear1",
        "Attention2",
        "Logits3",
        "Sample4",
        "Advance5",
        "Empty6",
    ]
    assert views[1].task == "mpk::tasks::Linear<Linear1>"


def test_layers_are_folded_in_the_names_of_users(hand_made: Any) -> None:
    plan = hand_made.plan
    more = replace(plan.ops[1], name="layers.11.qkv")
    views = make_variants(replace(plan, ops=(*plan.ops, more, replace(more, name="other"))))
    assert views[1].used_by == "layers.*.qkv, other"


def test_slots_number_the_operands_in_order(hand_made: Any) -> None:
    views = make_variants(hand_made.plan)
    assert views[0].slots == "tokens = 0, table = 1, out = 2"
    assert views[6].slots == ""


def test_only_variants_with_jit_tasks_are_jit(hand_made: Any) -> None:
    assert [view.index for view in make_variants(hand_made.plan) if view.jit] == [2]


def test_headers_are_sorted_and_named_once(hand_made: Any) -> None:
    plan = hand_made.plan
    doubled = replace(plan, variants=plan.variants + plan.variants)
    names = ("advance", "attention", "embedding", "empty", "linear", "logits", "sample")
    assert headers(doubled) == tuple(f"mpk/tasks/{name}.hpp" for name in names)


@pytest.mark.parametrize(
    ("value", "cpp_type", "literal"),
    [
        (True, "bool", "true"),
        (False, "bool", "false"),
        (7, "int", "7"),
        (-1, "int", "-1"),
        (1.0, "float", "1.0f"),
        (1e-05, "float", "1e-05f"),
        (500000.0, "float", "500000.0f"),
    ],
)
def test_literals(value: bool | int | float, cpp_type: str, literal: str) -> None:
    made = constant("c", value)
    assert (made.cpp_type, made.value) == (cpp_type, literal)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-6, 0.08838834764831845, 1e30])
def test_float_literals_round_to_the_nearest_float(value: float) -> None:
    literal = constant("c", value).value.removesuffix("f")
    nearest = struct.unpack("f", struct.pack("f", value))
    assert struct.unpack("f", struct.pack("f", float(literal))) == nearest


@pytest.mark.parametrize("value", [2**31, -(2**31), float("inf"), float("nan")])
def test_values_that_cpp_cannot_hold_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="constant c"):
        constant("c", value)
