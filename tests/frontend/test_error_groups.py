"""Errors of meaning that come with others: all of them, with their places, and no more."""

from __future__ import annotations

import pytest

from kgen.diagnostics import Diagnostic, SpecError
from kgen.frontend.build import build_graph
from kgen.spec.load import parse_spec
from tests.spec.edited import BASE

ATTENTION = "{op: attention, in: qkv, rope: {theta: 10000}, out: a}"


def errors_of(text: str) -> list[Diagnostic]:
    with pytest.raises(SpecError) as caught:
        build_graph(parse_spec(text))
    return caught.value.diagnostics


# (line, col, message, expected)
MANY = {
    "unknown weight": (
        "in: [a, wo]",
        "in: [a, w0]",
        [(10, 3, "tensor 'wo' is never used", ""), (19, 30, "unknown tensor 'w0'", "")],
    ),
    "weight expected": (
        "in: [a, wo]",
        "in: [a, x]",
        [
            (10, 3, "tensor 'wo' is never used", ""),
            (19, 30, "'x' is not a weight", "a tensor with a source"),
        ],
    ),
    "activation expected": (
        "in: [a, wo]",
        "in: [wo, wo]",
        [
            (18, 61, "'a' is written here, but nothing reads it", ""),
            (19, 27, "'wo' is a weight", "an activation, bf16 [rows, any]"),
        ],
    ),
    "read before written": (
        "in: [h, wqkv], out: qkv",
        "in: [a, wqkv], out: qkv",
        [
            (16, 54, "'h' is written here, but nothing reads it", ""),
            (17, 27, "'a' is read before it is written", ""),
        ],
    ),
    "dtype of an activation": (
        "in: [h, embed], out: y",
        "in: [x, embed], out: y",
        [
            (20, 51, "'h' is written here, but nothing reads it", ""),
            (21, 23, "logits: 'x' is f32 [rows, 64]", "bf16 [rows, any]"),
        ],
    ),
    "shape of a residual": (
        "wo: {shape: [hidden,",
        "wo: {shape: [hidden + 1,",
        [
            (19, 45, "linear: 'x' is f32 [rows, 64]", "f32 [rows, 65], to go with 'wo', bf16 [65, 64]"),
            (
                19,
                53,
                "'x' is f32 [rows, 64] where it is written first, here it would be f32 [rows, 65]",
                "another tensor",
            ),
        ],
    ),
    "shape of a weight": (
        "wo: {shape: [hidden, heads * head]",
        "wo: {shape: [hidden, heads * head + 1]",
        [(19, 30, "linear: 'wo' is bf16 [64, 65]", "bf16 [any, 64], to go with 'a', bf16 [rows, 64]")],
    ),
    "a vector for a matrix": (
        "embed: {shape: [vocab, hidden]",
        "embed: {shape: [vocab]",
        [
            (13, 34, "embedding: 'embed' is bf16 [300]", "bf16 [any, any]"),
            (21, 26, "logits: 'embed' is bf16 [300]", "bf16 [any, 64], to go with 'h', bf16 [rows, 64]"),
        ],
    ),
    "width of attention": (
        "(heads + 2*kv_heads) * head, hidden",
        "(heads + kv_heads) * head, hidden",
        [(18, 29, "attention: 'qkv' is f32 [rows, 96]", "f32 [rows, 128]")],
    ),
    "no source": (
        "dtype: bf16, source: final",
        "dtype: bf16",
        [
            (
                11,
                19,
                "'final' has no source, so it is an activation, but its first axis is hidden",
                "rows or batch",
            ),
            (20, 27, "'final' is not a weight", "a tensor with a source"),
        ],
    ),
    "output is the input of a product": (
        "in: [h, wqkv], out: qkv",
        "in: [h, wqkv], out: h",
        [
            (17, 42, "linear cannot write 'h' while its tasks still read it", "another tensor"),
            (18, 29, "unknown tensor 'qkv'", ""),
        ],
    ),
    "output is the input of attention": (
        ATTENTION,
        ATTENTION.replace("out: a", "out: qkv"),
        [
            (18, 61, "attention cannot write 'qkv' while its tasks still read it", "another tensor"),
            (19, 27, "unknown tensor 'a'", ""),
        ],
    ),
    "output is the input of logits": (
        "in: [h, embed], out: y",
        "in: [h, embed], out: h",
        [
            (21, 39, "logits cannot write 'h' while its tasks still read it", "another tensor"),
            (22, 22, "unknown tensor 'y'", ""),
        ],
    ),
    "attention without sizes": (
        "heads: 4, kv_heads: 2, head: 16",
        "nq: 4, nkv: 2, d: 16",
        [
            (9, 19, "unknown dim 'heads'", "hidden, layers, nq, nkv, d or vocab"),
            (10, 24, "unknown dim 'heads'", "hidden, layers, nq, nkv, d or vocab"),
            (18, 9, "attention needs 'heads'", "heads: <size>, or a dim named heads"),
            (18, 9, "attention needs 'kv_heads'", "kv_heads: <size>, or a dim named kv_heads"),
            (18, 9, "attention needs 'head'", "head: <size>, or a dim named head"),
        ],
    ),
    "norm without eps": (
        ATTENTION,
        ATTENTION.replace("out: a", "k_norm: final, out: a"),
        [
            (18, 64, "attention: 'final' is bf16 [64]", "bf16 [16]"),
            (18, 64, "attention: a norm needs 'eps'", "eps: 1e-6"),
        ],
    ),
    "heads of the operator": (
        ATTENTION,
        ATTENTION.replace("qkv,", "qkv, heads: 5, head: 3 * 4,"),
        [
            (18, 29, "attention: 'qkv' is f32 [rows, 128]", "f32 [rows, 108]"),
            (18, 41, "attention: 5 heads cannot be shared among 2 KV heads", "a multiple of 2"),
            (18, 50, "attention: a head of 12 is not a multiple of 8", ""),
            (19, 30, "linear: 'wo' is bf16 [64, 64]", "bf16 [any, 60], to go with 'a', bf16 [rows, 60]"),
        ],
    ),
    "no embedding": (
        "  - {op: embedding, in: [tokens, embed], out: x}\n",
        "",
        [
            (12, 1, "the graph has no embedding", "an operator {op: embedding, ...}"),
            (15, 28, "'x' is read before it is written", ""),
            (18, 45, "'x' is read before it is written", ""),
        ],
    ),
    "no sample": (
        "  - {op: sample, in: y, out: tokens}\n",
        "",
        [
            (12, 1, "the graph has no sample", "an operator {op: sample, ...}"),
            (21, 39, "'y' is written here, but nothing reads it", ""),
        ],
    ),
    "no attention": (
        f"      - {ATTENTION}\n",
        "",
        [
            (12, 1, "the graph has no attention", "an operator {op: attention, ...}"),
            (17, 42, "'qkv' is written here, but nothing reads it", ""),
            (18, 27, "unknown tensor 'a'", ""),
        ],
    ),
    "embedding in a repeat": (
        "    do:\n",
        "    do:\n      - {op: embedding, in: [tokens, embed], out: x}\n",
        [
            (13, 47, "'x' is written here, but nothing reads it", ""),
            (16, 14, "embedding cannot repeat", "it outside of 'do'"),
        ],
    ),
    "embedding is not first": (
        "  - {op: embedding, in: [tokens, embed], out: x}\n  - repeat",
        "  - {op: add, in: [x, x], out: z}\n  - {op: embedding, in: [tokens, embed], out: x}\n  - repeat",
        [
            (13, 10, "the graph starts with add", "embedding"),
            (13, 20, "'x' is read before it is written", ""),
            (13, 23, "'x' is read before it is written", ""),
            (13, 32, "'z' is written here, but nothing reads it", ""),
        ],
    ),
    "sample is not last": (
        "out: tokens}\n",
        "out: tokens}\n  - {op: add, in: [x, x], out: x}\n",
        [
            (23, 10, "the graph ends with add", "sample"),
            (23, 32, "'x' is written here, but nothing reads it", ""),
        ],
    ),
    "too many operators": (
        "layers: 2",
        "layers: 20000",
        [(14, 13, "layers is 20000, which makes 80001 operators", "at most 32767")],
    ),
}


@pytest.mark.parametrize(("old", "new", "wanted"), MANY.values(), ids=MANY.keys())
def test_errors_that_come_together(old: str, new: str, wanted: list[tuple[int, int, str, str]]) -> None:
    assert BASE.count(old) == 1
    found = errors_of(BASE.replace(old, new))
    assert [(d.span.line, d.span.col, d.message, d.expected) for d in found] == wanted


def test_the_vocabulary_is_that_of_the_embedding() -> None:
    text = BASE.replace("in: [h, embed]", "in: [h, wide]").replace(
        "  final:", "  wide: {shape: [vocab + 1, hidden], dtype: bf16, source: wide}\n  final:"
    )
    found = errors_of(text)
    assert [(d.span.line, d.span.col, d.message) for d in found] == [
        (22, 26, "logits scores 301 tokens, but the embedding's table has 300")
    ]


def test_all_attention_shares_one_cache() -> None:
    text = BASE.replace(
        f"      - {ATTENTION}\n",
        f"      - {ATTENTION}\n      - {{op: linear, in: [a, wo], residual: x, out: x}}\n"
        "      - {op: attention, in: qkv, heads: 8, kv_heads: 4, head: 8, out: a}\n",
    )
    found = errors_of(text)
    assert [(d.span.line, d.span.col, d.message, d.expected) for d in found] == [
        (
            20,
            14,
            "attention with 4 KV heads of 8 cannot share the cache",
            "2 KV heads of 16, as in 'layers.0.attention'",
        )
    ]
