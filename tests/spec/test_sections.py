"""Which sections a spec must have, and which exclude each other."""

from __future__ import annotations

from kgen.spec.load import parse_spec
from tests.spec.edited import BASE
from tests.spec.test_structure import errors_of


def test_missing_sections_are_named_at_the_start() -> None:
    found = errors_of("kgen: 1\nkind: model\nname: small\n")
    assert [(d.message, d.span.line, d.span.col) for d in found] == [
        ("the spec needs 'dims'", 1, 1),
        ("the spec needs 'tensors'", 1, 1),
        ("the spec needs 'graph'", 1, 1),
        ("the spec needs 'runtime'", 1, 1),
    ]


def test_a_spec_that_is_only_from_is_told_what_else_to_write() -> None:
    found = errors_of("from: {hf_config: {model_type: llama}}\n")
    assert [(d.message, d.expected) for d in found] == [
        ("the spec needs 'kgen'", "kgen: 1"),
        ("the spec needs 'kind'", "kind: model"),
        ("the spec needs 'name'", "name: my_model"),
        ("the spec needs 'runtime'", "runtime: {batch: 1..16, context: 1..2048, kv_page: 64}"),
    ]
    head = "".join(f"{d.expected}\n" for d in found)
    assert parse_spec(f"{head}from: {{hf_config: {{model_type: llama}}}}\n").name == "my_model"


def test_from_excludes_what_it_stands_for() -> None:
    found = errors_of(BASE.replace("runtime:", "from: {hf_config: {}}\nruntime:"))
    assert [(d.message, d.expected, d.span.line, d.span.col) for d in found] == [
        ("'dims' is given together with 'from'", "one or the other", 4, 1),
        ("'tensors' is given together with 'from'", "one or the other", 7, 1),
        ("'graph' is given together with 'from'", "one or the other", 13, 1),
    ]
