"""What the compiler refuses is shown at the operator or the limit in the spec that asked for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgen.diagnostics import Diagnostic
from kgen.frontend.build import build_graph
from kgen.frontend.locate import located
from kgen.frontend.names import place_of
from kgen.ir.problem import Problem
from kgen.passes.pipeline import CompileError, compile_graph
from kgen.paths import shipped_spec
from kgen.spec.load import parse_spec
from tests.spec.edited import BASE, Marked, assert_only

CONFIG = Path(__file__).parent / "configs/qwen3-8b.json"


def refused(text: str) -> list[Diagnostic]:
    spec = parse_spec(text, "spec.yaml")
    with pytest.raises(CompileError) as caught:
        compile_graph(build_graph(spec))
    return located(spec, caught.value.problems).diagnostics


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"vocab: 300": "vocab: 9000000", "op: logits": "op: «logits»"},
            "logits: 70313 tasks, but an operator has at most 16384",
        ),
        (
            {"heads: 4, kv": "heads: 200000, kv", "{op: linear, in: [h,": "{op: «linear», in: [h,"},
            "layers.0.wqkv: 200004 tasks, but an operator has at most 16384",
        ),
        (
            {
                "kv_heads: 2": "kv_heads: 5000",
                "heads: 4,": "heads: 5000,",
                "op: attention": "op: «attention»",
            },
            "layers.0.attention: 20000 tasks, but an operator has at most 16384",
        ),
    ],
)
def test_an_operator_with_too_many_tasks(changes: dict[str, str], message: str) -> None:
    text = BASE
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    marked = Marked(text)
    assert_only(refused(marked.text), marked, message)


def test_a_context_that_overflows_a_counter() -> None:
    """7032 tasks of logits trigger one event; 2^32 / 7032 = 610774.7."""
    marked = Marked(BASE.replace("vocab: 300", "vocab: 900000").replace("1..96", "«1..1048576»"))
    (found,) = refused(marked.text)
    assert found.message.startswith("the context of 1048576 is too long for a counter: event ")
    assert found.message.endswith("; a context of 610774 fits")
    assert_only([found], marked, found.message)
    build = marked.text.replace("1..1048576", "1..610774")
    compile_graph(build_graph(parse_spec(build)))
    assert refused(marked.text.replace("1..1048576", "1..610775"))


@pytest.mark.parametrize(
    ("operator", "place"),
    [
        ("embedding", "{op: «embedding»"),
        ("layers.0.norm", "{op: «rmsnorm», in: [x, norm]"),
        ("layers.1.wo", "{op: «linear», in: [a, wo]"),
        ("final", "{op: «rmsnorm», in: [x, final]"),
        ("advance", "{op: «sample»"),
    ],
)
def test_every_operator_has_its_place(operator: str, place: str) -> None:
    marked = Marked(BASE.replace(place.replace("«", "").replace("»", ""), place))
    found = located(parse_spec(BASE), [Problem("wrong", operator=operator)]).diagnostics
    assert_only(found, marked, "wrong")


def test_names_lead_back_to_their_operators_when_they_are_numbered() -> None:
    extra = "      - {op: linear, in: [a, wo], residual: x, out: x}\n"
    spec = parse_spec(BASE.replace(extra, extra * 3))
    graph = build_graph(spec)
    paths = [place_of(spec, op.name) for op in graph.ops]
    layer = [("graph", 1, "do", i) for i in range(6)]
    assert paths == [("graph", 0), *layer, *layer, ("graph", 2), ("graph", 3), ("graph", 4), ("graph", 4)]
    for name in ("", "layers", "wo", "layers.wo", "layers.x.wo", "other.0.wo", "layers.0.final"):
        assert place_of(spec, name) is None, name


def test_the_iterations_of_an_operator_are_told_once() -> None:
    names = [f"layers.{i}.{label}" for i in range(2) for label in ("wo", "wqkv")]
    problems = [Problem(f"{name}: wrong", operator=name) for name in names]
    found = located(parse_spec(BASE), problems).diagnostics
    assert [d.message for d in found] == ["layers.0.wqkv: wrong", "layers.0.wo: wrong"]


def test_limits_have_their_place_and_the_rest_is_at_the_start() -> None:
    problems = [
        Problem("the page", setting="kv_page"),
        Problem("not written", setting="rows"),
        Problem("nowhere", operator="empty"),
        "no such part",
    ]
    found = located(parse_spec(BASE, "spec.yaml"), problems).diagnostics
    assert [(str(d.span), d.message) for d in found] == [
        ("spec.yaml:1:1", "nowhere"),
        ("spec.yaml:1:1", "no such part"),
        ("spec.yaml:5:1", "not written"),
        ("spec.yaml:5:49", "the page"),
    ]


def test_operators_of_a_config_are_at_the_config() -> None:
    config = json.loads(CONFIG.read_text()) | {"intermediate_size": 9_000_000}
    head = "kgen: 1\nkind: model\nname: t\nruntime: {batch: 1..4, context: 1..96, kv_page: 16}\n"
    (found,) = refused(f"{head}from:\n  hf_config: {json.dumps(config)}\n")
    assert found.message == "layers.0.swiglu: 70313 tasks, but an operator has at most 16384"
    assert str(found.span) == "spec.yaml:6:14"


def test_a_cluster_worker_that_cannot_run_the_model_is_refused_where_it_is_asked_for() -> None:
    marked = Marked(BASE.replace("kv_page: 16", "kv_page: 16, worker: «cluster»"))
    words = (
        "runtime.worker: the cluster worker cannot run this model: "
        "operator `layers.1.wqkv` is linear, where a decoder has its gate and up projection (swiglu)"
    )
    assert_only(refused(marked.text), marked, words)


def test_every_reason_against_the_cluster_worker_is_told() -> None:
    path = shipped_spec("tiny")
    assert path is not None
    text = path.read_text().replace("kv_page: 16", "kv_page: 16\n  worker: «cluster»")
    marked = Marked(text)
    words = (
        "runtime.worker: the cluster worker cannot run this model: hidden is 72, not a multiple of 256; "
        "ffn is 200, not a multiple of 32; vocab is 331, not a multiple of 16; "
        "ffn is 200, less than 64 for each of 8 clusters; head is 24, not 64 or 128; "
        "there are 2 KV heads, not 8"
    )
    assert_only(refused(marked.text), marked, words)
