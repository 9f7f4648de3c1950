from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest

from kgen.passes.pipeline import Compilation, compile_graph
from kgen.report.drawing import Level, draw
from kgen.report.graph import to_dot, to_html, to_mermaid
from tests.graphs import TINY, build

LAYERS = 3
PARTS = ["attn_norm", "qkv", "attention", "o", "ffn_norm", "swiglu", "down"]


@pytest.fixture(scope="module")
def tiny() -> Compilation:
    return compile_graph(build(replace(TINY, layers=LAYERS)))


def edges(dot: str) -> dict[tuple[str, str], str]:
    names = dict(re.findall(r'^ +(n\d+) \[label="([^"\\]*)', dot, re.MULTILINE))
    found = re.findall(r'(n\d+) -> (n\d+) \[label="([^"]*)"', dot)
    return {(names[a], names[b]): label for a, b, label in found}


def test_layers_that_are_alike_are_drawn_once(tiny: Compilation) -> None:
    drawing = draw(tiny)
    assert [[n.name for n in g.nodes] for g in drawing.groups] == [
        ["embed"],
        [f"layers.0.{part}" for part in PARTS],
        ["final_norm", "logits", "sample", "advance"],
    ]
    assert drawing.groups[1].title == "layers 0 to 2, one of 3 alike"
    assert edges(to_dot(tiny)) == {
        ("embed", "layers.0.attn_norm"): "5 events",  # one for each row
        ("layers.0.attn_norm", "layers.0.qkv"): "1 event",
        ("layers.0.qkv", "layers.0.attention"): "2 events",  # one for each KV head
        ("layers.0.attention", "layers.0.o"): "1 event",
        ("layers.0.o", "layers.0.ffn_norm"): "1 event",
        ("layers.0.ffn_norm", "layers.0.swiglu"): "1 event",
        ("layers.0.swiglu", "layers.0.down"): "1 event",
        ("layers.0.down", "layers.0.attn_norm"): "1 event, next layer",
        ("layers.0.down", "final_norm"): "1 event",
        ("final_norm", "logits"): "1 event",
        ("logits", "sample"): "1 event",
        ("sample", "advance"): "1 event",
    }


def test_every_operator_on_request(tiny: Compilation) -> None:
    found = edges(to_dot(tiny, Level.OPERATORS))
    assert found["layers.0.down", "layers.1.attn_norm"] == found["layers.2.down", "final_norm"] == "1 event"
    assert ("layers.0.down", "final_norm") not in found
    assert len(found) == len(PARTS) * LAYERS + 4
    titles = [group.title for group in draw(tiny, Level.OPERATORS).groups]
    assert titles == ["", "layer 0", "layer 1", "layer 2", ""]


def test_layers_that_differ_are_drawn_apart() -> None:
    graph = build(replace(TINY, layers=2))
    other = tuple(replace(op, eps=1e-3) if op.name == "layers.1.attn_norm" else op for op in graph.ops)
    drawing = draw(compile_graph(replace(graph, ops=other)))
    assert [g.title for g in drawing.groups] == ["", "layer 0", "layer 1", ""]


def test_mermaid_says_the_same_as_dot(tiny: Compilation) -> None:
    text = to_mermaid(tiny)
    assert text.startswith("flowchart TD\n")
    names = dict(re.findall(r'(n\d+)\["([^<"]*)<br>', text))
    arrows = re.findall(r'(n\d+) (-->|-\.->)\|"([^"]*)"\| (n\d+)', text)
    assert {(names[a], names[b]): label for a, _, label, b in arrows} == edges(to_dot(tiny))
    assert [names[a] for a, arrow, _, _ in arrows if arrow == "-.->"] == ["layers.0.down"]


def test_the_page_needs_nothing_from_elsewhere(tiny: Compilation) -> None:
    text = to_html(tiny)
    assert re.findall(r'https?://[^"]*', text) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in text
    assert "<link" not in text
    svg = ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    space = "{http://www.w3.org/2000/svg}"
    shown = [t.text for t in svg.iter(f"{space}text")]
    for part in ["embed", *(f"layers.0.{p}" for p in PARTS), "advance"]:
        assert part in shown
    assert "attention, 4 tasks" in shown
    assert sum(path.get("class", "").startswith("edge") for path in svg.iter(f"{space}path")) == 12
    boxes = [r for r in svg.iter(f"{space}rect") if r.get("class", "").startswith("node")]
    tops = [int(r.get("y", "")) for r in boxes]
    heights = {int(r.get("height", "")) for r in boxes}
    assert len(boxes) == 12
    assert all(below - above > max(heights) for above, below in pairwise(tops))
    assert tops[-1] + max(heights) <= int(svg.get("height", ""))


def test_names_are_escaped(tiny: Compilation) -> None:
    named = replace(tiny, plan=replace(tiny.plan, name='a<b>"c"'))
    assert '"a<b>\\"c\\""' in to_dot(named)
    assert "<title>a&lt;b&gt;&quot;c&quot;</title>" in to_html(named)
