"""One run reports errors of structure and of meaning, and none that only follow from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.diagnostics import SpecError
from kgen.frontend.build import build_graph
from kgen.frontend.check import load_graph
from kgen.spec.load import parse_spec
from tests.spec.edited import BASE

Found = list[tuple[int, int, str]]


def errors_of(text: str, tmp_path: Path) -> Found:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_graph(path)
    return [(d.span.line, d.span.col, d.message) for d in caught.value.diagnostics]


def test_a_good_spec(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(BASE)
    spec, graph = load_graph(path, batch=2, workers=7)
    assert spec.name == "small"
    assert graph == build_graph(parse_spec(BASE), batch=2, workers=7)


CASES: dict[str, tuple[list[tuple[str, str]], Found]] = {
    "an extra key and an unknown tensor": (
        [("name: small", "name: small\nnmae: x"), ("in: [h, embed]", "in: [hh, embed]")],
        [
            (4, 1, "unknown key 'nmae'"),
            (22, 23, "unknown tensor 'hh'"),
        ],
    ),
    "a broken operator hides only itself": (
        [
            ("{op: linear, in: [h, wqkv], out: qkv}", "{op: linear, in: [h, wqkv], ot: qkv}"),
            ("residual: x", "residual: z"),
        ],
        [
            (17, 9, "linear needs 'out'"),
            (17, 37, "unknown key 'ot'"),
            (19, 45, "unknown tensor 'z'"),
        ],
    ),
    "a broken tensor hides only itself": (
        [
            ("wo: {shape: [hidden, heads * head]", "wo: {shape: [hidden, heads / head]"),
            ("in: [x, final]", "in: [x, embed]"),
        ],
        [
            (10, 30, "'/' cannot be part of a size"),
            (11, 3, "tensor 'final' is never used"),
            (20, 27, "rmsnorm: 'embed' is bf16 [300, 64]"),
        ],
    ),
    "a broken dim hides only itself": (
        [("hidden: 64", "hidden: none of it"), ("heads * head]", "heads * hed]")],
        [
            (4, 21, "'of' is not expected here"),
            (10, 32, "unknown dim 'hed'"),
        ],
    ),
    "a duplicate key": (
        [("  final: {", "  embed: {}\n  final: {"), ("out: tokens}", "out: token}")],
        [
            (11, 3, "the key 'embed' is given twice (first on line 7)"),
            (23, 30, "sample writes 'token', but the embedding of the next step reads 'tokens'"),
        ],
    ),
    "a broken header": (
        [
            ("kgen: 1", "kgen: 3"),
            ("name: small", "name: Small"),
            ("kv_page: 16", "kv_pages: 16"),
            ("[x, final]", "[x, finl]"),
        ],
        [
            (1, 7, "'kgen' is the number 3, this kgen reads version 1"),
            (3, 7, "'Small' cannot name a C library"),
            (5, 1, "'runtime' needs 'kv_page'"),
            (5, 40, "unknown key 'kv_pages'"),
            (20, 27, "unknown tensor 'finl'"),
        ],
    ),
    "a scalar that cannot be read": (
        [
            ("eps: 1e-5, out: h}\n  - {op: logits", "eps: !!int x, out: h}\n  - {op: logits"),
            ("residual: x", "residual: z"),
        ],
        [
            (19, 45, "unknown tensor 'z'"),
            (20, 40, "'x' is not a YAML 1.2 int"),
        ],
    ),
    "nothing to check without a graph": (
        [("graph:", "grph:"), ("heads * head]", "heads * hed]")],
        [
            (1, 1, "the spec needs 'graph'"),
            (12, 1, "unknown key 'grph'"),
        ],
    ),
}


@pytest.mark.parametrize(("edits", "wanted"), CASES.values(), ids=CASES.keys())
def test_errors_of_both_stages(edits: list[tuple[str, str]], wanted: Found, tmp_path: Path) -> None:
    text = BASE
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert errors_of(text, tmp_path) == wanted


def test_structure_alone_fails_load(tmp_path: Path) -> None:
    text = BASE.replace("name: small", "name: small\nnmae: x").replace("in: [h, embed]", "in: [hh, embed]")
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    assert [d.message for d in caught.value.diagnostics] == ["unknown key 'nmae'"]
