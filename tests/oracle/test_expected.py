"""The limits of the harness let through other places of rounding, and nothing that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from kgen.frontend.build import build_graph
from kgen.passes.pipeline import compile_graph
from kgen.paths import shipped_spec
from kgen.render.project import render_project
from kgen.spec.load import load_spec
from tests.engine.bench_modules import bench_module

PACKED, EXPECTED, PROMPTS = (bench_module(name) for name in ("packed", "expected", "prompts"))
REFERENCE = bench_module("reference")
ROWS = 4  # at the end of each sequence
LENGTHS = (4, 17, 33, 128, 500)
Hide = Callable[[Any], None]


class OtherPlaces(REFERENCE.Reference):  # type: ignore[misc, name-defined]
    """Rounds where the cluster worker does: norms before they are scaled, queries, weights of attention.

    May be wrong: hide changes who sees which key, bool [query, key]; turned is added to the last position.
    """

    def __init__(self, model: dict[str, Any], weights: dict[str, Any], hide: Hide, turned: int) -> None:
        super().__init__(model, weights, rounded=True)
        self.dtypes |= {op["operands"]["out"]: "f32" for op in model["ops"] if op["kind"] == "rmsnorm"}
        self.hide, self.turned = hide, turned

    def _rmsnorm(self, c: dict[str, Any], _: Any, t: dict[str, Any]) -> Any:
        root = np.sqrt(np.mean(t["x"] ** 2, axis=-1, keepdims=True) + c["eps"])
        return self._stored(t["x"] * t["weight"]) / root

    def _attention(self, c: dict[str, Any], ids: Any, t: dict[str, Any]) -> Any:
        heads, kv_heads, head, n = c["heads"], c["kv_heads"], c["head"], len(ids)
        q, k, v = np.split(t["qkv"].reshape(n, -1, head), [heads, heads + kv_heads], axis=1)
        positions = np.arange(n) + self.turned * (np.arange(n) == n - 1)
        frequencies = REFERENCE.rope_frequencies(c)
        q = REFERENCE.rotate(REFERENCE.rms_norm(q, t["q_norm"], c["eps"]), np.outer(positions, frequencies))
        k = REFERENCE.rotate(
            REFERENCE.rms_norm(k, t["k_norm"], c["eps"]), np.outer(np.arange(n), frequencies)
        )
        q, k, v = self._stored(q * c["scale"]), self._stored(k), self._stored(v)
        k, v = (np.repeat(x, heads // kv_heads, axis=1) for x in (k, v))
        seen = np.tril(np.ones((n, n), dtype=bool))
        self.hide(seen)
        scores = np.where(seen[:, None], np.einsum("qhd,khd->qhk", q, k), -np.inf)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        sums = weights.sum(axis=2, keepdims=True)
        return (np.einsum("qhk,khd->qhd", self._stored(weights), v) / sums).reshape(n, heads * head)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The decoder of the GPU tests: model.json, and random weights."""
    path = shipped_spec("tiny-decoder")
    assert path is not None
    description = json.loads(render_project(compile_graph(build_graph(load_spec(path))))["model.json"])
    file = tmp_path_factory.mktemp("weights") / "random"
    PACKED.write_random(description, file)
    return description, PACKED.read_weights(description, file)


Run = Callable[..., tuple[Any, Any, Any]]


@pytest.fixture(scope="module")
def run(model: tuple[dict[str, Any], dict[str, Any]]) -> Run:
    """A sequence of some length, what is expected of it, and logits that are rounded at other places."""
    exact, rounded = (REFERENCE.Reference(*model, rounded=rounded) for rounded in (False, True))

    @cache
    def references(length: int) -> tuple[list[int], Any]:
        tokens = PROMPTS.random_prompt(model[0], length)
        return tokens, EXPECTED.Expected(exact.logits(tokens), rounded.logits(tokens), False)

    def rows(length: int, hide: Hide = lambda _: None, turned: int = 0) -> tuple[Any, Any, Any]:
        tokens, expected = references(length)
        return np.array(tokens), expected, OtherPlaces(*model, hide, turned).logits(tokens)

    return rows


LAST = slice(-ROWS, None)


@pytest.mark.parametrize("length", LENGTHS)
def test_rounding_at_other_places_is_right(run: Run, length: int) -> None:
    _, expected, logits = run(length)
    expected.rows(LAST).check_logits(logits[LAST])
    expected.rows(LAST).check_two_logits(logits[LAST], expected.rounded[LAST])
    expected.rows(LAST).check_choices(logits[LAST].argmax(axis=1))


def test_and_so_are_its_log_probabilities(run: Run) -> None:
    tokens, expected, logits = run(200)
    expected, after, rows = expected.rows(slice(0, -1)), tokens[1:], np.arange(199)
    values, others = (EXPECTED.log_softmax(x)[rows, after] for x in (logits[:-1], expected.rounded))
    expected.check_logprobs(after, values)
    expected.check_two_logprobs(values, others)
    values[100] += 0.35
    with pytest.raises(AssertionError, match="value 100 is off"):
        expected.check_logprobs(after, values)
    values[100] = np.nan
    with pytest.raises(AssertionError, match="off by nan"):
        expected.check_logprobs(after, values)


def hide_own(seen: Any) -> None:
    seen[-1, -1] = False


def hide_first(seen: Any) -> None:
    seen[-1, 0] = False


def show_next(seen: Any) -> None:
    seen[-2, -1] = True


FAULTS: dict[str, dict[str, Any]] = {
    "the row's own key is missing": {"hide": hide_own},
    "the first key is missing": {"hide": hide_first},
    "the next key is seen": {"hide": show_next},
    "a position is off by one": {"turned": 1},
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_one_key_or_position_that_is_wrong_in_one_row(run: Run, length: int, fault: dict[str, Any]) -> None:
    _, expected, logits = run(length, **fault)
    for check in (
        lambda: expected.rows(LAST).check_logits(logits[LAST]),
        lambda: expected.rows(LAST).check_two_logits(logits[LAST], expected.rounded[LAST]),
    ):
        with pytest.raises(AssertionError, match=r"off by|is off"):
            check()


def test_the_logits_of_another_row(run: Run) -> None:
    _, expected, logits = run(33)
    with pytest.raises(AssertionError, match="off by"):
        expected.rows(LAST).check_logits(logits[[-4, -3, -2, -2]])
    with pytest.raises(AssertionError, match="chose another token"):
        expected.rows(LAST).check_choices(logits[LAST].argsort(axis=1)[:, -3])


def test_a_library_that_rounds_alike_must_be_closer(run: Run) -> None:
    _, expected, logits = run(33)
    alike = EXPECTED.Expected(expected.exact, expected.rounded, True).rows(LAST)
    alike.check_logits(alike.rounded)
    farther = alike.rounded + 1.2 * (logits[LAST] - alike.rounded)
    expected.rows(LAST).check_logits(farther)
    with pytest.raises(AssertionError, match="rounds alike"):
        alike.check_logits(farther)
