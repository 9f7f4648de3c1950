"""Each way in which a well-formed spec can mean nothing, with the exact place of its error."""

from __future__ import annotations

import pytest

import kgen.frontend.build
from kgen.diagnostics import Diagnostic, SpecError
from kgen.frontend.build import build_graph
from kgen.spec.load import parse_spec
from tests.spec.edited import assert_only, edited, said

DIMS = "hidden, layers, heads, kv_heads, head or vocab"
ATTENTION = "{op: attention, in: qkv, rope: {theta: 10000}, out: a}"
FINAL = "{op: rmsnorm, in: [x, final], eps: 1e-5, out: h}"


def errors_of(text: str) -> list[Diagnostic]:
    with pytest.raises(SpecError) as caught:
        build_graph(parse_spec(text, "spec.yaml"))
    return caught.value.diagnostics


CASES = {
    # names
    "unknown activation": (
        FINAL,
        "{op: rmsnorm, in: [«xx», final], eps: 1e-5, out: h}",
        "unknown tensor 'xx' |  | x",
    ),
    "unknown weight": (FINAL, FINAL.replace("final", "«finl»"), "unknown tensor 'finl' |  | final"),
    "unknown activation that is read once": (
        "in: [h, embed], out: y",
        "in: [«hh», embed], out: y",
        "unknown tensor 'hh' |  | h",
    ),
    "unknown dim in a shape": ("heads * head]", "heads * «haed»]", f"unknown dim 'haed' | {DIMS} | head"),
    "unknown dim in quotes": ("heads * head]", '"heads * «haed»"]', f"unknown dim 'haed' | {DIMS} | head"),
    "unknown dim of a repeat": (
        "- repeat: layers",
        "- repeat: «layer»",
        f"unknown dim 'layer' | {DIMS} | layers",
    ),
    "unknown dim of a weight": (
        'repeat: layers, source: "norm.{i}"',
        'repeat: «layer», source: "norm.{i}"',
        f"unknown dim 'layer' | {DIMS} | layers",
    ),
    "dim depends on itself": ("vocab: 300", "vocab: 300, p: «2 * p»", "dim 'p' depends on itself"),
    "dim has the name of an axis": (
        "vocab: 300",
        "vocab: 300, «rows»: 3",
        "'rows' is the name of an axis that is decided at run time | another name",
    ),
    "dim is negative": (
        "vocab: 300",
        "vocab: 300, n: «hidden - 65»",
        "the size is -1, it must be at least 1",
    ),
    "unused weight": (
        "  final: {",
        "  «spare»: {shape: [3], dtype: bf16, source: s}\n  final: {",
        "tensor 'spare' is never used",
    ),
    "unused activation": (
        "  final: {",
        "  «spare»: {shape: [rows, 3], dtype: bf16}\n  final: {",
        "tensor 'spare' is never used",
    ),
    # what operands are
    "weight written": (
        FINAL,
        "{op: rmsnorm, in: [x, final], eps: 1e-5, out: «embed»}",
        "'embed' is a weight and cannot be written | an activation",
    ),
    "weight of a layer outside": (
        "in: [h, embed], out: y",
        "in: [h, «wqkv»], out: y",
        "'wqkv' repeats over layers, but this operator does not | repeat: layers",
    ),
    "shape of a product": (
        "{op: logits, in: [h, embed], out: y}",
        "{op: logits, in: [h, «final»], out: y}",
        "logits: 'final' is bf16 [64] | bf16 [any, 64], to go with 'h', bf16 [rows, 64]",
    ),
    "declared shape": (
        "  final: {",
        "  h: {shape: «[rows, hidden + 1]», dtype: bf16}\n  final: {",
        "'h' is declared as bf16 [rows, 65], but rmsnorm writes bf16 [rows, 64]",
    ),
    "declared dtype": (
        "  final: {",
        "  x: {shape: [rows, hidden], dtype: «bf16»}\n  final: {",
        "'x' is declared as bf16 [rows, 64], but embedding writes f32 [rows, 64]",
    ),
    "output is the input of a norm": (
        FINAL,
        FINAL.replace("out: h", "out: «x»"),
        "rmsnorm cannot write 'x' while its tasks still read it | another tensor",
    ),
    "declared tokens": (
        "  final: {",
        "  tokens: {shape: «[batch]», dtype: i32}\n  final: {",
        "'tokens' is declared as i32 [batch] | i32 [rows]",
    ),
    "weight that is not bf16": (
        "dtype: bf16, source: final",
        "dtype: «f32», source: final",
        "weight 'final' is f32 | bf16",
    ),
    "activation that repeats": (
        "  final: {",
        "  h: {shape: [rows, hidden], dtype: bf16, repeat: «layers»}\n  final: {",
        "'h' has no source, only weights repeat | source: ...",
    ),
    # sources
    "source used twice": (
        "source: final",
        "source: «embed»",
        "'embed' is already the source of tensor 'embed'",
    ),
    "source used twice in a list": (
        "source: final",
        "source: [final, «final»]",
        "'final' is already the source of tensor 'final'",
    ),
    "iteration in a source": (
        "source: final",
        'source: "«final.{i}»"',
        "'final' does not repeat, but its source has {i} | repeat: <dim>",
    ),
    "no iteration in a source": (
        '"norm.{i}"',
        '"«norm»"',
        "'norm' repeats, but its source is the same each time | {i} in the source",
    ),
    "braces in a source": (
        '"norm.{i}"',
        '"«norm.{n}.{i}»"',
        "'norm.{n}.{i}' has braces that are not {i} | {i} for the iteration",
    ),
    # attention
    "head": ("head: 16", "head: «12»", "attention: a head of 12 is not a multiple of 8"),
    "large head": ("head: 16", "head: «264»", "attention: a head of 264 is too large | at most 256"),
    "kv_heads": (
        "heads: 4, kv_heads: 2",
        "heads: «4», kv_heads: 3",
        "attention: 4 heads cannot be shared among 3 KV heads | a multiple of 3",
    ),
    "eps without norm": (
        ATTENTION,
        "{op: attention, in: qkv, eps: «1e-6», out: a}",
        "attention: 'eps' belongs to q_norm and k_norm, and there is neither",
    ),
    "rope factor": (
        "theta: 10000",
        "theta: 10000, scaling: {type: llama3, factor: «1», low_freq_factor: 1, high_freq_factor: 4, "
        "original_context: 8}",
        "a factor of 1 does not scale | a factor above 1",
    ),
    "rope frequencies": (
        "theta: 10000",
        "theta: 10000, scaling: {type: llama3, factor: 8, low_freq_factor: «4», high_freq_factor: 4, "
        "original_context: 8}",
        "low_freq_factor must be below high_freq_factor",
    ),
    # structure
    "second sample": (
        "{op: sample, in: y, out: tokens}",
        "{op: sample, in: y, out: tokens}\n  - {op: «sample», in: y, out: tokens}",
        "a second sample | one sample in a model",
    ),
    "sample into another tensor": (
        "in: y, out: tokens",
        "in: y, out: «token»",
        "sample writes 'token', but the embedding of the next step reads 'tokens' | out: tokens | tokens",
    ),
    # limits
    "context": (
        "context: 1..96",
        "context: «1..2000000»",
        "runtime.context: 2000000 is out of range | 1 to 1048576",
    ),
    "batch": ("batch: 1..4", "batch: «1..300»", "runtime.batch: 300 is out of range | 1 to 256"),
    "page": ("kv_page: 16", "kv_page: «2000»", "runtime.kv_page: 2000 is out of range | 1 to 1024"),
    "page of odd size": (
        "kv_page: 16",
        "kv_page: «12»",
        "runtime.kv_page: 12 is not a multiple of 8 | a multiple of 8",
    ),
    "rows": (
        "kv_page: 16",
        "kv_page: 16, rows: «3»",
        "runtime.rows: a step of 3 rows cannot hold a batch of 4 | at least 4",
    ),
    "too many rows": (
        "kv_page: 16",
        "kv_page: 16, rows: «1025»",
        "runtime.rows: 1025 is out of range | 1 to 1024",
    ),
    "workers": (
        "kv_page: 16",
        "kv_page: 16, workers: «1025»",
        "runtime.workers: 1025 is out of range | 1 to 1024",
    ),
}


@pytest.mark.parametrize(("old", "new", "words"), CASES.values(), ids=CASES.keys())
def test_error(old: str, new: str, words: str) -> None:
    marked = edited(old, new)
    assert_only(errors_of(marked.text), marked, words)


def test_vocabulary_that_sampling_cannot_add_up() -> None:
    marked = edited("in: [h, embed], out: y", "in: [h, «embed»], out: y")
    text = marked.text.replace("vocab: 300", f"vocab: {2**24}")
    (error,) = errors_of(text)
    assert said(error) == "a vocabulary of 16777216 tokens is too large | at most 16777215"
    assert (error.span.line, error.span.col, error.span.end_col) == (marked.line, marked.col, marked.end_col)
    build_graph(parse_spec(marked.text.replace("vocab: 300", f"vocab: {2**24 - 1}")))


@pytest.mark.parametrize(
    ("limit", "most", "key", "words"),
    [
        # The embedding, two layers of 4, norm, logits, sample and advance.
        ("MAX_OPERATORS", 13, "«graph»:", "the model has 13 operators | at most 12"),
        # embed, final and 3 for each layer; tokens, x, h, qkv, a, y and what is sampled.
        ("MAX_TENSORS", 15, "«tensors»:", "the model has 15 tensors | at most 14"),
    ],
)
def test_more_than_the_tables_can_number(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int, key: str, words: str
) -> None:
    marked = edited(key.replace("«", "").replace("»", ""), key)
    monkeypatch.setattr(kgen.frontend.build, limit, most)
    build_graph(parse_spec(marked.text))
    monkeypatch.setattr(kgen.frontend.build, limit, most - 1)
    assert_only(errors_of(marked.text), marked, words)
