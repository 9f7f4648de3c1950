"""One run reports errors of a kernel's structure and of its meaning, and none that follow from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.diagnostics import SpecError
from kgen.frontend.check import load_graph, load_kernel
from tests.frontend.test_kernel_error_groups import rewritten
from tests.spec.edited import BASE, KERNEL

BOTH: dict[str, tuple[list[tuple[str, str]], list[tuple[int, int, str]]]] = {
    "an extra key and an unknown tensor": (
        [("name: small", "name: small\nnmae: x"), ("[a_full, b]", "[a_full, bb]")],
        [(4, 1, "unknown key 'nmae'"), (13, 31, "unknown tensor 'bb'")],
    ),
    "a broken operator hides only itself": (
        [("op: all_gather", "op: gather"), ("outputs: [c]", "outputs: [cc]")],
        [(11, 10, "unknown operator 'gather'"), (13, 11, "unknown tensor 'cc'")],
    ),
    "a broken matmul hides what it reads": (
        [("[a_full, b]", "[a_full]"), ("N: 32", "N: 33")],
        [
            (5, 21, "N is 33, which makes rows that are no multiple of 16 bytes"),
            (12, 22, "matmul with 1 operand"),
        ],
    ),
    "a broken tensor hides only itself": (
        [("[N, K], dtype: bf16", "[N, K], dtype: bf17"), ("K: 64}", "K: 64, L: 1}")],
        [(5, 32, "dim 'L' is never used"), (8, 29, "'dtype' is the text 'bf17'")],
    ),
    "a broken dim hides only itself": (
        [("N: 32", "N: some"), ("comm_sms: 8", "comm_sms: 132")],
        [(5, 21, "'N' is the text 'some'"), (14, 41, "132 is out of range")],
    ),
    "a broken world hides what it divides": (
        [("world: 2..8", "world: -1"), ("M: 1..64", "M: 7"), ("K: 64", "K: 63")],
        [
            (4, 8, "a world of -1 ranks is not possible"),
            (5, 24, "K is 63, which makes rows that are no multiple of 16 bytes"),
        ],
    ),
    "broken outputs hide what is written": (
        [("outputs: [c]", "outputs: c"), ("in: a, out", "in: aa, out")],
        [(11, 26, "unknown tensor 'aa'"), (13, 10, "'outputs' is the text 'c'")],
    ),
    "a broken choice hides only itself": (
        [("stages: 4", "stages: some"), ("comm_sms: 8", "comm_sms: 0"), ("in: a, out", "in: aa, out")],
        [
            (11, 26, "unknown tensor 'aa'"),
            (14, 41, "0 is out of range"),
            (14, 89, "'stages' is the text 'some'"),
        ],
    ),
    "a broken world may be of several ranks": (
        [("world: 2..8", "world: 0"), ("transfer: tma", "transfer: some")],
        [(4, 8, "a world of 0 ranks is not possible"), (14, 54, "'transfer' is the text 'some'")],
    ),
}


@pytest.mark.parametrize(("edits", "wanted"), BOTH.values(), ids=BOTH.keys())
def test_errors_of_both_stages(
    edits: list[tuple[str, str]], wanted: list[tuple[int, int, str]], tmp_path: Path
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(rewritten(KERNEL, edits))
    with pytest.raises(SpecError) as caught:
        load_kernel(path)
    assert [(d.span.line, d.span.col, d.message) for d in caught.value.diagnostics] == wanted


def test_each_kind_has_its_loader(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    for text, load, words in (
        (KERNEL, load_graph, "this is a kernel"),
        (BASE, load_kernel, "this is a model"),
    ):
        path.write_text(text)
        with pytest.raises(SpecError) as caught:
            load(path)
        assert [(d.message, d.span.line, d.span.col) for d in caught.value.diagnostics] == [(words, 2, 7)]
