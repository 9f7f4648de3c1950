"""Each way in which the structure of a spec can be wrong, with the exact place of its error."""

from __future__ import annotations

import pytest

from kgen.diagnostics import Diagnostic, SpecError, one_of
from kgen.spec.load import parse_spec
from kgen.spec.ops import OPERATORS
from tests.spec.edited import BASE, Marked, assert_only, edited

OPS = one_of(tuple(OPERATORS))
NORM = "{op: rmsnorm, in: [x, final], eps: 1e-5, out: h}"
SIZE = "names, integers, + - * and parentheses"


def errors_of(text: str) -> list[Diagnostic]:
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "spec.yaml")
    return caught.value.diagnostics


CASES = {
    "version": ("kgen: 1", "kgen: «2»", "'kgen' is the number 2, this kgen reads version 1 | kgen: 1"),
    "version true": (
        "kgen: 1",
        "kgen: «true»",
        "'kgen' is the boolean true, this kgen reads version 1 | kgen: 1",
    ),
    "kind": ("kind: model", "kind: «modl»", "'kind' is the text 'modl' | model or kernel | model"),
    "name with a dash": (
        "name: small",
        "name: «My-Model»",
        "'My-Model' cannot name a C library "
        "| lower case letters, digits and _, starting with a letter | my_model",
    ),
    "name is a keyword": (
        "name: small",
        "name: «namespace»",
        "'namespace' is a reserved word | another name of at most 63 characters",
    ),
    "name is a number": ("name: small", "name: «7»", "'name' is the number 7 | a name"),
    "unknown key": (
        "name: small",
        "name: small\n«tensor»: 3",
        "unknown key 'tensor' | kgen, kind, name, runtime, from, dims, tensors or graph | tensors",
    ),
    "unknown key of an operator": (
        NORM,
        "{op: rmsnorm, in: [x, final], eps: 1e-5, out: h, «ep»: 1}",
        "unknown key 'ep' | op, in, eps or out | eps",
    ),
    "unknown key of rope": (
        "rope: {theta: 10000}",
        "rope: {theta: 10000, «scalin»: {}}",
        "unknown key 'scalin' | theta or scaling | scaling",
    ),
    "unknown key of a repeat": (
        "  - repeat: layers",
        "  - «times»: 2\n    repeat: layers",
        "unknown key 'times' | repeat or do",
    ),
    "missing key": (
        NORM,
        "«{op: rmsnorm, in: [x, final], out: h}»",
        "rmsnorm needs 'eps'",
    ),
    "missing key of a section": (
        "runtime: {batch: 1..4, context: 1..96, kv_page: 16}",
        "«runtime»: {batch: 1..4, context: 1..96}",
        "'runtime' needs 'kv_page'",
    ),
    "no op": (NORM, "«{in: [x, final], out: h}»", f"an operator needs 'op' | {OPS}"),
    "unknown op": (
        NORM,
        "{op: «rmsnrm», in: [x, final], eps: 1e-5, out: h}",
        f"unknown operator 'rmsnrm' | {OPS} | rmsnorm",
    ),
    "op is a number": (
        NORM,
        "{op: «3», in: [x, final], eps: 1e-5, out: h}",
        f"'op' is the number 3 | {OPS}",
    ),
    "not an operator": (NORM, "«rmsnorm»", "this is the text 'rmsnorm' | an operator {op: ...}"),
    "a repeat in a repeat": (
        "      - {op: linear, in: [h, wqkv], out: qkv}",
        "      - «{repeat: layers, do: []}»",
        f"an operator needs 'op' | {OPS}",
    ),
    "operand count": (
        NORM,
        "{op: rmsnorm, in: «[x]», eps: 1e-5, out: h}",
        "rmsnorm with 1 operand | [x, weight]",
    ),
    "operand count of an operator with an optional one": (
        "in: [h, wqkv], out: qkv",
        "in: «[h]», out: qkv",
        "linear with 1 operand | [x, weight] or [x, weight, bias]",
    ),
    "operands not a list": (
        NORM,
        "{op: rmsnorm, in: «x», eps: 1e-5, out: h}",
        "'in' is the text 'x' | a list",
    ),
    "operand not a name": (
        NORM,
        "{op: rmsnorm, in: [x, «3»], eps: 1e-5, out: h}",
        "this is the number 3 | a name",
    ),
    "operand with a dot": (
        NORM,
        "{op: rmsnorm, in: [x, «a.b»], eps: 1e-5, out: h}",
        "'a.b' is not a name | letters, digits and _, not starting with a digit",
    ),
    "empty value": (
        "residual: x",
        "«residual»:",
        "'residual' is nothing | a name",
    ),
    "eps is text": (
        NORM,
        "{op: rmsnorm, in: [x, final], eps: «tiny», out: h}",
        "'eps' is the text 'tiny' | a number",
    ),
    "eps is zero": (
        NORM,
        "{op: rmsnorm, in: [x, final], eps: «0», out: h}",
        "0 is out of range | a positive number that fp32 can hold",
    ),
    "theta is infinite": (
        "theta: 10000",
        "theta: «.inf»",
        "inf is out of range | a positive number that fp32 can hold",
    ),
    "rope is nothing": ("rope: {theta: 10000}", "rope: «~»", "'rope' is nothing | a mapping"),
    "rope is text": ("rope: {theta: 10000}", "rope: «llama3»", "'rope' is the text 'llama3' | a mapping"),
    "rope scaling type": (
        "theta: 10000",
        "theta: 10000, scaling: {type: «yarn», factor: 4, low_freq_factor: 1, high_freq_factor: 4, "
        "original_context: 32}",
        "'type' is the text 'yarn' | llama3",
    ),
    "range for a dim": (
        "vocab: 300",
        "vocab: «1..300»",
        "1..300 is decided at run time, but every dim of a model is compiled in "
        "| a number (runtime.batch and runtime.context are the ranges of a model)",
    ),
    "dim is a list": (
        "vocab: 300",
        "vocab: «[3]»",
        "'vocab' is a list | a size: a number or an expression of dims",
    ),
    "dim is zero": ("vocab: 300", "vocab: «0»", f"the size is 0, it must be at least 1 | {SIZE}"),
    "dim is too large": (
        "vocab: 300",
        "vocab: «3000000000»",
        f"the size is larger than 2147483647 | {SIZE}",
    ),
    "dim has a bad name": (
        "vocab: 300",
        "vocab: 300, «a-b»: 1",
        "'a-b' is not a name | letters, digits and _, not starting with a digit",
    ),
    "expression: operator": (
        "heads * head]",
        "heads «/» head]",
        f"'/' cannot be part of a size | {SIZE}",
    ),
    "expression: parenthesis": (
        "[(heads + 2*kv_heads) * head, hidden]",
        "[heads + 2*kv_heads«)» * head, hidden]",
        f"')' is not expected here | {SIZE}",
    ),
    "expression in quotes": (
        "heads * head]",
        '"heads * «*» head"]',
        f"'*' is not expected here | {SIZE}",
    ),
    "shape of three": (
        "shape: [vocab, hidden]",
        "shape: «[vocab, hidden, 3]»",
        "a shape of 3 dims | one or two dims",
    ),
    "dtype": (
        "[vocab, hidden], dtype: bf16",
        "[vocab, hidden], dtype: «bf61»",
        "'dtype' is the text 'bf61' | bf16, f32 or i32 | bf16",
    ),
    "source is a number": (
        "source: final",
        "source: «3»",
        "'source' is the number 3 | the name of a checkpoint tensor or a list of names",
    ),
    "sources are numbers": (
        "source: final",
        "source: «[a, 3]»",
        "'source' is not a list of checkpoint tensors | a name or a list of names",
    ),
    "tensor is text": (
        "{shape: [hidden], dtype: bf16, source: final}",
        "«x»",
        "'final' is the text 'x' | a mapping",
    ),
    "batch is a number": ("batch: 1..4", "batch: «4»", "'batch' is the number 4 | a range such as 1..16"),
    "batch starts above 1": ("batch: 1..4", "batch: «2..4»", "the range starts at 2 | 1..4"),
    "batch is empty": (
        "batch: 1..4",
        "batch: «1..0»",
        "the range 1..0 is empty | a last value of at least 1",
    ),
    "page is text": ("kv_page: 16", "kv_page: «on»", "'kv_page' is the text 'on' | a whole number"),
    "page is a fraction": ("kv_page: 16", "kv_page: «1.5»", "'kv_page' is the number 1.5 | a whole number"),
    "page is zero": (
        "kv_page: 16",
        "kv_page: «0»",
        "0 is out of range | a whole number from 1 to 2147483647",
    ),
    "unknown worker": (
        "kv_page: 16",
        "kv_page: 16, worker: «clusters»",
        "'worker' is the text 'clusters' | auto, cluster or general | cluster",
    ),
    "attention is nothing": (
        "kv_page: 16",
        "kv_page: 16, «attention»: ",
        "'attention' is nothing | auto, aot or jit",
    ),
    "pipelining is text": (
        "kv_page: 16",
        "kv_page: 16, pipelining: «on»",
        "'pipelining' is the text 'on' | true or false",
    ),
    "pipelining is a number": (
        "kv_page: 16",
        "kv_page: 16, pipelining: «1»",
        "'pipelining' is the number 1 | true or false",
    ),
    "empty do": (
        "    do:\n      - {op: rmsnorm, in: [x, norm], eps: 1e-5, out: h}\n"
        "      - {op: linear, in: [h, wqkv], out: qkv}\n"
        "      - {op: attention, in: qkv, rope: {theta: 10000}, out: a}\n"
        "      - {op: linear, in: [a, wo], residual: x, out: x}\n",
        "    do: «[]»\n",
        "this list is empty | at least one operator",
    ),
}


@pytest.mark.parametrize(("old", "new", "words"), CASES.values(), ids=CASES.keys())
def test_error(old: str, new: str, words: str) -> None:
    marked = edited(old, new)
    assert_only(errors_of(marked.text), marked, words)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("co_await", "is a reserved word"),
        ("lambda", "is a reserved word"),
        ("mpk_x", "is a reserved word"),
        ("clean", "is a target of every generated project"),
        ("embed", "is a target of every generated project"),
        ("pthread", "is the prefix of functions of the C library"),
        *(
            (name, f"would make a lib{name}.so, which is the name of a system library")
            for name in ("m", "c", "dl", "rt", "z", "gcc_s", "cuda", "cudart", "nccl", "crypto", "ssl")
        ),
        ("json", "is the name of a Python module"),
        ("packed", "is the name of a Python module"),
    ],
)
def test_names_that_are_taken(name: str, reason: str) -> None:
    marked = edited("name: small", f"name: «{name}»")
    assert_only(errors_of(marked.text), marked, f"'{name}' {reason} | another name of at most 63 characters")


@pytest.mark.parametrize("text", ["- kgen", "kgen", "3"])
def test_a_spec_is_a_mapping(text: str) -> None:
    marked = Marked(f"«{text}»")
    found = errors_of(marked.text)
    assert [d.message for d in found] == ["a spec is a mapping"]
    assert (found[0].span.line, found[0].span.col) == (1, 1)


def test_every_error_is_found_at_once() -> None:
    text = BASE.replace("kv_page: 16", "kv_page: on").replace(
        "eps: 1e-5, out: h}\n  - {op: logits", "out: h}\n  - {op: logit"
    )
    text = text.replace("vocab: 300", "vocab: 0").replace("source: final", "sauce: final")
    assert [(d.span.line, d.span.col, d.message) for d in errors_of(text)] == [
        (4, 71, "the size is 0, it must be at least 1"),
        (5, 49, "'kv_page' is the text 'on'"),
        (11, 41, "unknown key 'sauce'"),
        (20, 5, "rmsnorm needs 'eps'"),
        (21, 10, "unknown operator 'logit'"),
    ]


def test_defaults_and_values() -> None:
    spec = parse_spec(BASE)
    assert (spec.kgen, spec.kind, spec.name) == (1, "model", "small")
    assert str(spec.runtime.batch) == "1..4"
    assert (spec.runtime.kv_page, spec.runtime.rows, spec.runtime.workers) == (16, None, None)
    assert (spec.runtime.worker, spec.runtime.pipelining, spec.runtime.attention) == ("auto", True, "auto")
    assert spec.tensors["norm"].source == ("norm.{i}",)
    assert spec.tensors["wqkv"].shape[0].evaluate({"heads": 4, "kv_heads": 2, "head": 16}) == 128
