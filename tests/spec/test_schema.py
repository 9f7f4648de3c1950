from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match

from kgen.spec.document import parse_document
from kgen.spec.kernel_ops import KERNEL_OPERATORS
from kgen.spec.ops import OPERATORS
from kgen.spec.schema import json_schema
from tests.spec import test_kernel_structure
from tests.spec.edited import BASE, KERNEL
from tests.spec.test_structure import CASES

SPECS = sorted((Path(__file__).parents[2] / "specs").rglob("*.yaml"))
# What the schema does not say: reserved words, and arithmetic.
ONLY_KGEN = {
    "name is a keyword",
    "expression: parenthesis",
    "expression in quotes",
    "batch is empty",
    "world from none",
    "world is empty",
    "world is large",
    "world is one large number",
}


def data(text: str) -> Any:
    document, errors = parse_document(text, "spec.yaml")
    assert not errors
    return document.data


@pytest.fixture(scope="module")
def validator() -> Draft7Validator:
    Draft7Validator.check_schema(json_schema())
    return Draft7Validator(json_schema())


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_shipped_specs_are_valid(validator: Draft7Validator, path: Path) -> None:
    assert [error.message for error in validator.iter_errors(data(path.read_text()))] == []


@pytest.mark.parametrize("config", ["config.json", "{model_type: llama}"])
def test_from_stands_for_dims_tensors_and_graph(validator: Draft7Validator, config: str) -> None:
    head = BASE[: BASE.index("dims:")]
    spec = f"{head}runtime: {{batch: 1..4, context: 1..96, kv_page: 16}}\nfrom: {{hf_config: {config}}}\n"
    assert validator.is_valid(data(spec))
    assert not validator.is_valid(data(spec + "dims: {a: 1}\n"))
    assert not validator.is_valid(data(head))


@pytest.mark.parametrize("case", [name for name in CASES if name not in ONLY_KGEN])
def test_what_kgen_refuses_is_invalid(validator: Draft7Validator, case: str) -> None:
    old, new, _ = CASES[case]
    assert validator.is_valid(data(BASE))
    assert not validator.is_valid(data(BASE.replace(old, new.replace("«", "").replace("»", ""))))


@pytest.mark.parametrize("case", [name for name in test_kernel_structure.CASES if name not in ONLY_KGEN])
def test_what_kgen_refuses_of_a_kernel_is_invalid(validator: Draft7Validator, case: str) -> None:
    old, new, _ = test_kernel_structure.CASES[case]
    assert validator.is_valid(data(KERNEL))
    assert not validator.is_valid(data(KERNEL.replace(old, new.replace("«", "").replace("»", ""))))


@pytest.mark.parametrize("kind", ["model", "kernel"])
def test_the_kind_decides_what_a_spec_has(validator: Draft7Validator, kind: str) -> None:
    text = {"model": BASE, "kernel": KERNEL}[kind]
    other = {"model": "kernel", "kernel": "model"}[kind]
    assert not validator.is_valid(data(text.replace(f"kind: {kind}", f"kind: {other}")))
    (error,) = validator.iter_errors(data(text.replace("dtype: bf16", "dtype: bf61", 1)))
    assert "'bf61' is not one of" in error.message


NORM = "{op: rmsnorm, in: [x, final], eps: 1e-5, out: h}"
IN_REPEAT = "{op: linear, in: [h, wqkv], out: qkv}"


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        (NORM, NORM.replace("rmsnorm", "rms_norm"), ["graph", 2, "op"], "'rms_norm' is not one of"),
        (NORM, NORM.replace("eps: 1e-5, ", ""), ["graph", 2], "'eps' is a required property"),
        (NORM, NORM.replace("eps", "epsilon: 1, eps"), ["graph", 2], "'epsilon' was unexpected"),
        (NORM, NORM.replace("op: rmsnorm, ", ""), ["graph", 2], "'op' is a required property"),
        (
            IN_REPEAT,
            IN_REPEAT.replace("linear", "liner"),
            ["graph", 1, "do", 1, "op"],
            "'liner' is not one of",
        ),
        (
            IN_REPEAT,
            IN_REPEAT.replace(", out: qkv", ""),
            ["graph", 1, "do", 1],
            "'out' is a required property",
        ),
        ("repeat: layers\n    do:", "do:", ["graph", 1], "'repeat' is a required property"),
    ],
)
def test_an_error_is_about_the_operator(
    validator: Draft7Validator, old: str, new: str, path: list[str | int], message: str
) -> None:
    assert BASE.count(old) == 1
    (error,) = validator.iter_errors(data(BASE.replace(old, new)))
    assert error is best_match([error])
    assert list(error.absolute_path) == path
    assert message in error.message


def test_every_operator_is_listed() -> None:
    operator = json_schema()["definitions"]["Operator"]
    assert operator["properties"]["op"]["enum"] == list(OPERATORS)
    assert len(operator["allOf"]) == len(OPERATORS)
    operator = json_schema()["definitions"]["KernelOperator"]
    assert operator["properties"]["op"]["enum"] == list(KERNEL_OPERATORS)


def test_nothing_of_later_drafts_is_left() -> None:
    text = str(json_schema())
    assert "$defs" not in text
    assert "'discriminator'" not in text
    assert "prefixItems" not in text
