"""Whatever is done to a spec, the answer is a graph or a SpecError whose places are in the file."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgen.diagnostics import Diagnostic, SpecError
from kgen.frontend.build import build_graph, find_errors
from kgen.frontend.expand import expand_text
from kgen.ir.graph import Graph
from kgen.spec.load import load_spec, parse_draft, parse_spec
from kgen.spec.scalars import PLAIN
from tests.frontend.test_hf import inline
from tests.spec.edited import BASE

CONFIG: dict[str, Any] = json.loads((Path(__file__).parent / "configs/llama-3.2-1b.json").read_text())
CONFIG |= {"num_hidden_layers": 2}

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.integers(),
    st.floats(),
    st.sampled_from(
        ["x", "h", "wo", "layers", "rows", "1..4", "heads * head", "linear", "add", "bf16", "f32", "{i}"]
    ),
    st.text(max_size=5),
    st.lists(st.sampled_from(["x", "h", "norm", 3]), max_size=4),
    st.dictionaries(st.sampled_from(["op", "in", "out", "repeat", "do", "linear"]), st.just("x"), max_size=3),
)
EDITS = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from(["set", "delete", "copy", "add"]), VALUES),
    min_size=1,
    max_size=3,
)
relaxed = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def checked(text: str) -> Graph | None:
    """The graph of a text, or None for errors, which have proper places. Nothing else may be raised."""
    errors: list[Diagnostic] = []
    graph: Graph | None = None
    try:
        draft = parse_draft(text, "spec.yaml")
        errors += draft.errors
        if draft.spec is not None and draft.errors:
            errors += find_errors(draft.spec)
        elif draft.spec is not None:
            graph = build_graph(draft.spec)
    except SpecError as error:
        errors += error.diagnostics
        assert error.diagnostics  # noqa: PT017 - an error that is caught here is the expected outcome
    for diagnostic in errors:
        check_place(diagnostic, text.splitlines())
    return None if errors else graph


def check_place(diagnostic: Diagnostic, lines: list[str]) -> None:
    span = diagnostic.span
    assert diagnostic.message
    assert diagnostic.render()
    if span.line:
        assert span.source == (lines[span.line - 1] if span.line <= len(lines) else "")
        assert 1 <= span.col < span.end_col
        assert span.col <= len(span.source) + 1


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in the data."""
    found: list[tuple[Any, Any]] = []
    keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else []
    for key in keys:
        found.append((data, key))
        found += places(data[key])
    return found


def apply(data: Any, edits: list[tuple[int, str, Any]]) -> Any:
    data = copy.deepcopy(data)
    for number, action, value in edits:
        spots = places(data)
        if not spots:
            return data
        container, key = spots[number % len(spots)]
        if action == "delete":
            del container[key]
        elif action == "copy":
            other, there = spots[(number * 7 + 3) % len(spots)]
            container[key] = copy.deepcopy(other[there])
        elif action == "add" and isinstance(container, dict):
            container["extra"] = value
        else:
            container[key] = value
    return data


def core_yaml(data: Any) -> str:
    """YAML whose plain scalars mean the same in YAML 1.2; JSON quotes everything else."""
    return json.dumps(data, default=str).replace("Infinity", ".inf").replace("NaN", ".nan")


@relaxed
@given(EDITS)
def test_mutated_specs(edits: list[tuple[int, str, Any]]) -> None:
    graph = checked(core_yaml(apply(plain(BASE), edits)))
    if graph is not None:
        assert graph.ops[-1].kind == "advance"


@relaxed
@given(EDITS)
def test_mutated_specs_that_pass_can_be_expanded(edits: list[tuple[int, str, Any]]) -> None:
    text = core_yaml(apply(plain(BASE), edits[:1]))
    graph = checked(text)
    if graph is not None:
        assert build_graph(parse_spec(expand_text(parse_spec(text)))) == graph


@relaxed
@given(EDITS)
def test_mutated_configs(edits: list[tuple[int, str, Any]]) -> None:
    text = inline(apply(CONFIG, edits))
    checked(text.replace("Infinity", ".inf").replace("NaN", ".nan"))


@relaxed
@given(
    st.integers(0, len(BASE)),
    st.integers(0, 12),
    st.text(alphabet="\n\t :-[]{}&*!|>'\"#%@,x1é\x07", max_size=6),
)
def test_mutated_text(start: int, length: int, inserted: str) -> None:
    checked(BASE[:start] + inserted + BASE[start + length :])


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    assert checked(text) is None


@given(content=st.binary(max_size=40))
def test_any_bytes(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError):
        load_spec(path)


def plain(text: str) -> Any:
    """The data of a spec, by PyYAML alone with the core schema's scalars."""

    class Loader(yaml.BaseLoader):
        pass

    for tag, pattern in PLAIN.items():
        Loader.add_implicit_resolver(tag, pattern, None)
        kind = tag.rpartition(":")[2]
        if kind in ("int", "float"):
            convert = int if kind == "int" else float
            Loader.add_constructor(tag, lambda _, node, convert=convert: convert(node.value))
    return yaml.load(text, Loader)
