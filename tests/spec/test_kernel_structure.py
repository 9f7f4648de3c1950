"""Each way in which the structure of a kernel's spec can be wrong, with the exact place of its error."""

from __future__ import annotations

import pytest

from kgen.diagnostics import Diagnostic, SpecError, one_of
from kgen.spec.fields import Range
from kgen.spec.kernel_ops import KERNEL_OPERATORS
from kgen.spec.load import parse_kernel_spec, parse_spec
from tests.spec.edited import BASE, KERNEL, Marked, assert_only, edited

OPS = one_of(tuple(KERNEL_OPERATORS))
SIZE = "a number, or a range such as 1..4096"
OVERLAP = "{schedule: inter_sm, comm_sms: 8, transfer: tma, tile: [128, 256, 64], stages: 4}"
SECTIONS = "kgen, kind, name, world, dims, tensors, graph, outputs, deterministic or overlap"
FLAGS = "[false, true], for the first operand and for the weights"


def errors_of(text: str) -> list[Diagnostic]:
    with pytest.raises(SpecError) as caught:
        parse_kernel_spec(text, "spec.yaml")
    return caught.value.diagnostics


CASES = {
    "version": ("kgen: 1", "kgen: «2»", "'kgen' is the number 2, this kgen reads version 1 | kgen: 1"),
    "kind": ("kind: kernel", "kind: «kernl»", "'kind' is the text 'kernl' | model or kernel | kernel"),
    "name": (
        "name: small",
        "name: «Small»",
        "'Small' cannot name a C library | lower case letters, digits and _, starting with a letter | small",
    ),
    "unknown section": ("name: small", "name: small\n«runtime»: 3", f"unknown key 'runtime' | {SECTIONS}"),
    "world is text": ("world: 2..8", "world: «two»", f"'world' is the text 'two' | {SIZE}"),
    "world of none": ("world: 2..8", "world: «0»", "a world of 0 ranks is not possible | 1 to 16 ranks"),
    "world from none": (
        "world: 2..8",
        "world: «0..8»",
        "a world of 0..8 ranks is not possible | 1 to 16 ranks",
    ),
    "world is empty": (
        "world: 2..8",
        "world: «8..2»",
        "the range 8..2 is empty | a last value of at least 8",
    ),
    "world is large": (
        "world: 2..8",
        "world: «2..17»",
        "a world of 2..17 ranks is not possible | 1 to 16 ranks",
    ),
    "world is one large number": (
        "world: 2..8",
        "world: «99»",
        "a world of 99 ranks is not possible | 1 to 16 ranks",
    ),
    "dim is a fraction": ("N: 32", "N: «1.5»", f"'N' is the number 1.5 | {SIZE}"),
    "dim is zero": ("N: 32", "N: «0»", "0 is out of range | sizes from 1 to 2147483647"),
    "dim has no end": ("N: 32", "N: «1..»", f"'N' is the text '1..' | {SIZE}"),
    "shape of three": ("[M, N]", "«[M, N, K]»", "a shape of 3 dims | one or two dims"),
    "shape with a product": (
        "[M, N]",
        "[M, «N * 2»]",
        "'N * 2' is not a dim | the name of a dim or a number",
    ),
    "shape with a fraction": ("[M, N]", "[M, «2.5»]", "this is the number 2.5 | a dim or a number"),
    "dtype": (
        "dtype: bf16, shard",
        "dtype: «fp16», shard",
        "'dtype' is the text 'fp16' | bf16 or f16 | f16",
    ),
    "f32": ("dtype: bf16, shard", "dtype: «f32», shard", "'dtype' is the text 'f32' | bf16 or f16"),
    "shard is a number": ("shard: {axis: 0}", "shard: «0»", "'shard' is the number 0 | a mapping"),
    "shard is nothing": ("shard: {axis: 0}", "«shard»:", "'shard' is nothing | a mapping"),
    "shard of no axis": ("shard: {axis: 0}", "«shard»: {}", "'shard' needs 'axis'"),
    "unknown key of shard": ("{axis: 0}}", "{axis: 0, «axs»: 1}}", "unknown key 'axs' | axis | axis"),
    "shard axis": ("{axis: 0}}", "{axis: «2»}}", "2 is not the number of an axis | 0 or 1"),
    "partial is text": ("shard: {axis: 0}", "partial: «yes»", "'partial' is the text 'yes' | true or false"),
    "unknown op": (
        "op: all_gather",
        "op: «all_gathr»",
        f"unknown operator 'all_gathr' | {OPS} | all_gather",
    ),
    "op of a model": ("op: all_gather", "op: «rmsnorm»", f"unknown operator 'rmsnorm' | {OPS}"),
    "no op": (
        "{op: all_gather, in: a, out: a_full, axis: 0}",
        "«{in: a, out: a_full, axis: 0}»",
        f"an operator needs 'op' | {OPS}",
    ),
    "in is a list": ("in: a, out", "in: «[a]», out", "'in' is a list | a name"),
    "axis": ("a_full, axis: 0", "a_full, axis: «x»", "'axis' is the text 'x' | 0 or 1"),
    "unknown key of an op": (
        "a_full, axis: 0",
        "a_full, «axs»: 0",
        "unknown key 'axs' | op, in, axis or out | axis",
    ),
    "operands": (
        "[a_full, b]",
        "«[a_full]»",
        "matmul with 1 operand | [a, b], or [x, gate, up] with activation: silu_mul",
    ),
    "transpose of one": ("[false, true]", "«[false]»", f"'transpose' is not two booleans | {FLAGS}"),
    "transpose is true": ("[false, true]", "«true»", f"'transpose' is the boolean true | {FLAGS}"),
    "activation": (
        "out: c}",
        "activation: «silu», out: c}",
        "'activation' is the text 'silu' | silu_mul | silu_mul",
    ),
    "no outputs": ("outputs: [c]", "outputs: «[]»", "this list is empty | at least one tensor"),
    "outputs is a name": ("outputs: [c]", "outputs: «c»", "'outputs' is the text 'c' | a list"),
    "deterministic": (
        "outputs: [c]",
        "outputs: [c]\ndeterministic: «maybe»",
        "'deterministic' is the text 'maybe' | true or false",
    ),
    "overlap": (
        OVERLAP,
        "«none»",
        "'overlap' is the text 'none' | auto, or a mapping such as {comm_sms: 8}",
    ),
    "unknown key of overlap": (
        "transfer: tma",
        "«tranfer»: tma",
        "unknown key 'tranfer' | schedule, comm_sms, transfer, tile or stages | transfer",
    ),
    "schedule": (
        "inter_sm",
        "«inter»",
        "'schedule' is the text 'inter' | intra_sm or inter_sm | inter_sm",
    ),
    "transfer": (
        "transfer: tma",
        "transfer: «nvlink»",
        "'transfer' is the text 'nvlink' | tma, register, copy_engine or multimem",
    ),
    "comm_sms": ("comm_sms: 8", "comm_sms: «2.5»", "'comm_sms' is the number 2.5 | a whole number"),
    "tile of two": (
        "[128, 256, 64]",
        "«[128, 256]»",
        "'tile' is not three numbers | [m, n, k], for example [128, 256, 64]",
    ),
    "tile is a number": (
        "[128, 256, 64]",
        "«128»",
        "'tile' is the number 128 | [m, n, k], for example [128, 256, 64]",
    ),
}


@pytest.mark.parametrize(("old", "new", "words"), CASES.values(), ids=CASES.keys())
def test_error(old: str, new: str, words: str) -> None:
    marked = edited(old, new, KERNEL)
    assert_only(errors_of(marked.text), marked, words)


def test_missing_sections_are_named_at_the_start() -> None:
    found = errors_of("kind: kernel\n")
    assert [(d.message, d.expected, d.span.line, d.span.col) for d in found] == [
        ("the spec needs 'kgen'", "kgen: 1", 1, 1),
        ("the spec needs 'name'", "name: my_kernel", 1, 1),
        ("the spec needs 'world'", "world: 2..8", 1, 1),
        ("the spec needs 'tensors'", "", 1, 1),
        ("the spec needs 'graph'", "", 1, 1),
        ("the spec needs 'outputs'", "outputs: [c]", 1, 1),
    ]


def test_what_looks_like_a_kernel_is_told_to_say_so() -> None:
    found = errors_of(KERNEL.replace("kind: kernel\n", ""))
    assert [(d.message, d.expected) for d in found] == [("the spec needs 'kind'", "kind: kernel")]


def test_tensors_are_not_empty() -> None:
    start, end = KERNEL.index("tensors:"), KERNEL.index("graph:")
    marked = Marked(KERNEL[:start] + "tensors: «{}»\n" + KERNEL[end:])
    assert_only(errors_of(marked.text), marked, "'tensors' is empty | at least one tensor")


def test_every_error_is_found_at_once() -> None:
    text = KERNEL.replace("world: 2..8", "world: 0").replace("N: 32", "N: many")
    text = text.replace("op: matmul", "op: matmull").replace("tile: [128", "tile: [x").replace("[c]", "[]")
    assert [(d.span.line, d.message) for d in errors_of(text)] == [
        (4, "a world of 0 ranks is not possible"),
        (5, "'N' is the text 'many'"),
        (12, "unknown operator 'matmull'"),
        (13, "this list is empty"),
        (14, "'tile' is not three numbers"),
    ]


def test_the_kinds_are_told_apart() -> None:
    for text, parse, words, place in (
        (KERNEL, parse_spec, "this is a kernel | a model", (2, 7)),
        (BASE, parse_kernel_spec, "this is a model | a kernel", (2, 7)),
    ):
        with pytest.raises(SpecError) as caught:
            parse(text)
        (found,) = caught.value.diagnostics
        assert f"{found.message} | {found.expected}" == words
        assert (found.span.line, found.span.col) == place


def test_defaults_and_values() -> None:
    spec = parse_kernel_spec(KERNEL)
    assert (spec.kgen, spec.kind, spec.name, spec.world) == (1, "kernel", "small", Range(2, 8))
    assert spec.dims == {"M": Range(1, 64), "N": 32, "K": 64}
    assert spec.tensors["a"].shard is not None
    assert (spec.tensors["a"].shard.axis, spec.tensors["a"].partial) == (0, False)
    assert (spec.tensors["b"].shard, spec.tensors["b"].shape) == (None, ["N", "K"])
    assert (spec.outputs, spec.deterministic) == (["c"], True)
    assert (spec.overlap.comm_sms, spec.overlap.tile, spec.overlap.stages) == (8, (128, 256, 64), 4)


@pytest.mark.parametrize("overlap", ["", "overlap: auto\n", "overlap: {}\n"])
def test_overlap_is_auto_by_default(overlap: str) -> None:
    spec = parse_kernel_spec(KERNEL[: KERNEL.index("overlap")] + overlap)
    assert set(spec.overlap.model_dump().values()) == {None}
