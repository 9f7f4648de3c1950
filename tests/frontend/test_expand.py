from __future__ import annotations

from pathlib import Path

import pytest

from kgen.frontend.build import build_graph
from kgen.frontend.expand import expand_text
from kgen.spec.load import load_spec, parse_spec
from tests.spec.edited import BASE

SPECS = sorted((Path(__file__).parents[2] / "specs/models").glob("*.yaml"))

EXPANDED = """\
kgen: 1
kind: model
name: small

dims:
  hidden: 64
  layers: 2
  heads: 4
  kv_heads: 2
  head: 16
  vocab: 300

runtime:
  batch: 1..4
  context: 1..96
  kv_page: 16
  rows: 16
  workers: 132
  worker: auto
  pipelining: true
  attention: auto

tensors:
  embed: {shape: [vocab, hidden], dtype: bf16, source: embed}
  norm: {shape: [hidden], dtype: bf16, repeat: layers, source: "norm.{i}"}
  wqkv: {shape: [(heads + 2*kv_heads) * head, hidden], dtype: bf16, repeat: layers, source: "qkv.{i}"}
  wo: {shape: [hidden, heads * head], dtype: bf16, repeat: layers, source: "o.{i}"}
  final: {shape: [hidden], dtype: bf16, source: final}
  tokens: {shape: [rows], dtype: i32}
  x: {shape: [rows, 64], dtype: f32}
  h: {shape: [rows, 64], dtype: bf16}
  qkv: {shape: [rows, 128], dtype: f32}
  a: {shape: [rows, 64], dtype: bf16}
  y: {shape: [batch, 300], dtype: f32}

graph:
  - {op: embedding, in: [tokens, embed], out: x}
  - repeat: layers
    do:
      - {op: rmsnorm, in: [x, norm], eps: 1e-5, out: h}
      - {op: linear, in: [h, wqkv], out: qkv}
      - op: attention
        in: qkv
        heads: heads
        kv_heads: kv_heads
        head: head
        rope: {theta: 10000}
        scale: 0.25
        out: a
      - {op: linear, in: [a, wo], residual: x, out: x}
  - {op: rmsnorm, in: [x, final], eps: 1e-5, out: h}
  - {op: logits, in: [h, embed], out: y}
  - {op: sample, in: y, out: tokens}
"""


def test_what_was_left_out_is_written_down() -> None:
    assert expand_text(parse_spec(BASE)) == EXPANDED


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_expanded_spec_means_the_same(path: Path) -> None:
    spec = load_spec(path)
    text = expand_text(spec)
    assert build_graph(parse_spec(text)) == build_graph(spec)
    assert expand_text(parse_spec(text)) == text
    assert max(map(len, text.splitlines())) <= 110


def test_names_and_numbers_that_need_care() -> None:
    odd = 'a "b" \\\\ {{x}}: # é \\u0085 \\t'
    text = (
        BASE.replace(
            "source: embed}", f'source: "{odd.replace("{{x}}", "").replace(chr(34) + "b" + chr(34), "b")}"}}'
        )
        .replace(
            "eps: 1e-5, out: h}\n  - {op: logits", "eps: 1.2345678901234567e-12, out: h}\n  - {op: logits"
        )
        .replace("  final:", '  "true":')
        .replace("in: [x, final]", 'in: [x, "true"]')
    )
    spec = parse_spec(text)
    assert build_graph(parse_spec(expand_text(spec))) == build_graph(spec)
    assert build_graph(spec).by_name["embed"].sources == ("a b \\ : # é \x85 \t",)


@pytest.mark.parametrize("length", [80, 120, 1000])
def test_long_texts_stay_whole(length: int) -> None:
    size = "hidden" + " + 0" * (length // 4)
    text = BASE.replace("source: embed}", f"source: {'e' * length}}}").replace("[hidden]", f"[{size}]")
    spec = parse_spec(text)
    assert build_graph(parse_spec(expand_text(spec))) == build_graph(spec)


def test_a_config_is_written_out() -> None:
    head = "kgen: 1\nkind: model\nname: t\nruntime: {batch: 1..2, context: 1..64, kv_page: 16}\n"
    config = (
        "{model_type: qwen2, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, "
        "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 100}"
    )
    spec = parse_spec(head + f"from: {{hf_config: {config}}}\n")
    text = expand_text(spec)
    assert "from" not in text
    assert "      - {op: linear, in: [h, wqkv, bqkv], out: qkv}\n" in text
    assert build_graph(parse_spec(text)) == build_graph(spec)


def test_how_a_model_runs_stays_as_it_was_written() -> None:
    text = BASE.replace("kv_page: 16", "kv_page: 16, worker: general, pipelining: false, attention: aot")
    expanded = expand_text(parse_spec(text))
    assert "\n  worker: general\n  pipelining: false\n  attention: aot\n" in expanded
    assert build_graph(parse_spec(expanded)).runtime == build_graph(parse_spec(text)).runtime
