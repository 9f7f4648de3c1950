"""A small spec, ways to break it, and an exact check of what is said about that."""

from __future__ import annotations

from kgen.diagnostics import Diagnostic

BASE = """\
kgen: 1
kind: model
name: small
dims: {hidden: 64, layers: 2, heads: 4, kv_heads: 2, head: 16, vocab: 300}
runtime: {batch: 1..4, context: 1..96, kv_page: 16}
tensors:
  embed: {shape: [vocab, hidden], dtype: bf16, source: embed}
  norm: {shape: [hidden], dtype: bf16, repeat: layers, source: "norm.{i}"}
  wqkv: {shape: [(heads + 2*kv_heads) * head, hidden], dtype: bf16, repeat: layers, source: "qkv.{i}"}
  wo: {shape: [hidden, heads * head], dtype: bf16, repeat: layers, source: "o.{i}"}
  final: {shape: [hidden], dtype: bf16, source: final}
graph:
  - {op: embedding, in: [tokens, embed], out: x}
  - repeat: layers
    do:
      - {op: rmsnorm, in: [x, norm], eps: 1e-5, out: h}
      - {op: linear, in: [h, wqkv], out: qkv}
      - {op: attention, in: qkv, rope: {theta: 10000}, out: a}
      - {op: linear, in: [a, wo], residual: x, out: x}
  - {op: rmsnorm, in: [x, final], eps: 1e-5, out: h}
  - {op: logits, in: [h, embed], out: y}
  - {op: sample, in: y, out: tokens}
"""

KERNEL = """\
kgen: 1
kind: kernel
name: small
world: 2..8
dims: {M: 1..64, N: 32, K: 64}
tensors:
  a: {shape: [M, K], dtype: bf16, shard: {axis: 0}}
  b: {shape: [N, K], dtype: bf16}
  c: {shape: [M, N], dtype: bf16}
graph:
  - {op: all_gather, in: a, out: a_full, axis: 0}
  - {op: matmul, in: [a_full, b], transpose: [false, true], out: c}
outputs: [c]
overlap: {schedule: inter_sm, comm_sms: 8, transfer: tma, tile: [128, 256, 64], stages: 4}
"""


class Marked:
    """A text in which «these» characters are what an error is about."""

    def __init__(self, marked: str) -> None:
        assert marked.count("«") == marked.count("»") == 1
        before, rest = marked.split("«")
        about, after = rest.split("»")
        self.text = before + about + after
        self.line = before.count("\n") + 1
        self.col = len(before) - (before.rfind("\n") + 1) + 1
        self.end_col = self.col + len(about)


def edited(old: str, new: str, base: str = BASE) -> Marked:
    """A base spec with the only place where `old` stands replaced by `new`, which has the marks."""
    assert base.count(old) == 1, f"{old!r} must be in the base spec once"
    return Marked(base.replace(old, new))


def said(diagnostic: Diagnostic) -> str:
    """The words of a diagnostic: "message | expected | hint" without empty parts at the end."""
    return " | ".join((diagnostic.message, diagnostic.expected, diagnostic.hint)).rstrip(" |")


def assert_only(found: list[Diagnostic], marked: Marked, words: str) -> None:
    """The only diagnostic says `words` about the marked characters."""
    assert [said(d) for d in found] == [words]
    span = found[0].span
    assert (span.line, span.col, span.end_col) == (marked.line, marked.col, marked.end_col)
    assert span.source == marked.text.splitlines()[marked.line - 1]
