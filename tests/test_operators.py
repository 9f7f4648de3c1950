"""Every operator of the spec language is known wherever one must be; README.md lists the places."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kgen.frontend.rules import RULES
from kgen.ir.operator import Operator
from kgen.paths import project_templates
from kgen.plan.task_templates import TEMPLATES
from kgen.spec.ops import OPERATORS
from tests.oracle.project import load_module

NOT_IN_THE_REFERENCE = {"sample"}  # what is done with logits is up to each test


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that generated projects test themselves with."""
    folder = project_templates() / "tests"
    monkeypatch.setitem(sys.modules, "packed", load_module(folder / "packed.py"))
    return load_module(folder / "reference.py")


def test_every_operator_has_a_rule() -> None:
    assert set(RULES) == set(OPERATORS.values())


@pytest.mark.parametrize("kind", OPERATORS)
def test_every_operator_has_an_ir_class_and_a_task(kind: str) -> None:
    template = TEMPLATES[kind]
    assert template.family is not None
    assert issubclass(template.family, Operator)
    assert (project_templates() / "include" / template.header).is_file()


@pytest.mark.parametrize("kind", [k for k in OPERATORS if k not in NOT_IN_THE_REFERENCE])
def test_every_operator_is_in_the_reference(reference: Any, kind: str) -> None:
    assert hasattr(reference.Reference, f"_{kind}")


def run_reference(reference: Any, *kinds: str) -> Any:
    ops = [
        {"kind": kind, "operands": {"out": "y", "x": "x", "weight": "w"}, "constants": {}} for kind in kinds
    ]
    eye = reference.np.eye(3)
    model = {"ops": ops, "tensors": [{"name": "y", "dtype": "f32"}]}
    return reference.Reference(model, {"x": eye, "w": eye}, rounded=False).logits([0, 1, 2])


def test_the_reference_refuses_an_operator_that_it_lacks(reference: Any) -> None:
    assert run_reference(reference, "sample", "advance", "logits").tolist() == reference.np.eye(3).tolist()
    with pytest.raises(LookupError, match="gelu has no method _gelu"):
        run_reference(reference, "gelu", "logits")
