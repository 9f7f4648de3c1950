"""Draws of the library against those of the interpreter.

Both turn logits into a cumulative distribution F and take the token at which it passes the same uniform
number. Their logits differ by rounding, at most by d. So the mass of the tokens up to any one, and that of
the tokens after it, change at most by the factor exp(d / T), and the logarithm of F / (1 - F) by 2 d / T.
The slope of the sigmoid function is at most 1/4, so F moves by at most d / (2 T), and a uniform number that
is farther than that from both ends of its token's interval must give the same token. top_k keeps the same
tokens where the last one kept and the first one left out are more than 2 d apart; top_p where, besides, the
mass wanted is not that close to a place where the set changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import kgen.ir.sample
from kgen.ir.machine import Array, Request
from kgen.ir.sampling import choose, kept_masses, philox
from kgen.plan.interp import Interpreter
from tests.oracle.compare import Decoded, decode, prompts
from tests.oracle.models import Model
from tests.oracle.project import Project, make_project

MODEL = Model("draws", vocab=19, tied=False, hidden=64, heads=4, head=16, ffn=72, rows=6, kv_page=8)
NEW_TOKENS = 6
# The largest difference of a logit between the two, at logits of up to about 15.
DIFFERENCE = 0.06
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 5.0},
    "top_k": {"temperature": 4.0, "top_k": 5},
    "top_p": {"temperature": 8.0, "top_p": 0.7},
    "top_k and top_p": {"temperature": 8.0, "top_k": 12, "top_p": 0.8},
    "high temperature": {"temperature": 40.0},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(MODEL.spec(), tmp_path_factory.mktemp("draws") / "project")


@dataclass(frozen=True)
class Draw:
    logits: Array
    request: Request
    position: int

    def is_clear(self, difference: float) -> bool:
        """Whether logits that differ by up to `difference` must give the same token."""
        slack = difference / (2 * self.request.temperature)
        return self._set_is_clear(difference, slack) and self._interval_is_clear(slack)

    def _set_is_clear(self, difference: float, slack: float) -> bool:
        ordered = np.sort(self.logits)[::-1]
        k = self.request.top_k
        if 0 < k < len(ordered) and ordered[k - 1] - ordered[k] <= 2 * difference:
            return False
        if not 0 < self.request.top_p < 1:
            return True
        before_top_p = kept_masses(self.logits, replace(self.request, top_p=1.0)).astype(np.float64)
        running = np.cumsum(np.sort(before_top_p)[::-1]) / before_top_p.sum()
        if np.abs(running - self.request.top_p).min() <= slack:
            return False
        last = int(np.searchsorted(running, self.request.top_p))
        return last + 1 == len(ordered) or bool(ordered[last] - ordered[last + 1] > 2 * difference)

    def _interval_is_clear(self, slack: float) -> bool:
        mass = kept_masses(self.logits, self.request).astype(np.float64)
        ends = np.concatenate([[0], np.cumsum(mass) / mass.sum()])
        uniform = philox(self.request.seed, self.position) / 2**64
        # Below the first end and above the last there is no other token.
        inner = ends[(ends > 0) & (ends < 1)]
        return bool(np.abs(inner - uniform).min(initial=1.0) > slack)


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[Draw]:
    """Every draw of the interpreter."""
    recorded: list[Draw] = []

    def recording(logits: Array, request: Request, position: int) -> int:
        recorded.append(Draw(logits.copy(), request, position))
        return choose(logits, request, position)

    monkeypatch.setattr(kgen.ir.sample, "choose", recording)
    return recorded


def test_the_rule_knows_a_draw_on_the_edge() -> None:
    """Two tokens of equal probability meet at 1/2: only uniform numbers near it depend on rounding."""
    logits = np.zeros(2, dtype=np.float32)
    for seed in range(200):
        draw = Draw(logits, Request((1,), 1, temperature=1.0, seed=seed), 5)
        uniform = philox(seed, 5) / 2**64
        assert draw.is_clear(0.01) == (abs(uniform - 0.5) > 0.005)
        if draw.is_clear(0.01):
            for nudged in ([0.01, -0.01], [-0.01, 0.01]):
                moved = choose(logits + np.array(nudged, dtype=np.float32), draw.request, 5)
                assert moved == choose(logits, draw.request, 5)


@pytest.mark.parametrize("name", SETTINGS)
def test_draws(project: Project, draws: list[Draw], name: str) -> None:
    interpreter = Interpreter(project.plan, project.weights())
    compared = clear = 0
    with project.opened() as model:
        for call in range(8):
            texts = prompts(MODEL.vocab, [2 + call, 7, 1, 13 + call], seed=call)
            requests = [
                Request(text, NEW_TOKENS, seed=(call << 40) + s, **SETTINGS[name])
                for s, text in enumerate(texts)
            ]
            decoded = decode(model, requests)
            draws.clear()
            result = interpreter.generate(requests, np.random.default_rng(call))
            for s, (got, request) in enumerate(zip(decoded, requests, strict=True)):
                tokens = result.sequences[s].tokens
                mine = sorted((d for d in draws if d.request is request), key=lambda d: d.position)
                assert len(mine) == len(got.tokens) == NEW_TOKENS
                for draw, token, expected in zip(mine, got.tokens, tokens, strict=True):
                    if token != expected:
                        assert not draw.is_clear(DIFFERENCE), f"call {call} sequence {s} at {draw.position}"
                        break  # the texts part here
                    compared += 1
                    clear += draw.is_clear(DIFFERENCE)
                else:
                    assert np.abs(got.logits - result.logits[s]).max() < DIFFERENCE
                assert_own_draw(got, request)
    total = 8 * 4 * NEW_TOKENS
    # Texts hardly ever part, and most draws leave no choice, so that a wrong rule cannot hide.
    assert compared > 0.9 * total
    assert clear > 0.5 * total


def assert_own_draw(got: Decoded, request: Request) -> None:
    """From the library's own logits NumPy draws its token, but for a rounding of the exponential."""
    position = len(request.prompt) + len(got.tokens) - 1
    draw = Draw(got.logits, request, position)
    assert got.tokens[-1] == choose(got.logits, request, position) or not draw.is_clear(1e-5)
