"""The library and the NumPy interpreter on the same plan and the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from kgen.ir.machine import Request
from kgen.paths import shipped_spec
from kgen.plan.interp import Interpreter
from kgen.plan.plan import Plan
from tests.oracle.compare import (
    LOGITS_TOLERANCE,
    assert_agree,
    decode,
    interpreter_of,
    prompts,
    relative_error,
)
from tests.oracle.models import Model
from tests.oracle.project import Project, make_project

MODELS = {
    "llama": Model("llama", heads=4, kv_heads=2, head=32, hidden=64),
    "qwen2": Model("qwen2", bias=True, kv_page=8, rows=7, theta=1e6),
    "separate": Model("separate", fused=False, bias=True, repeat=False, vocab=257, hidden=40, ffn=8),
    "group_3": Model(
        "group_3", heads=3, kv_heads=1, head=40, tied=False, q_norm=True, rows=5, hidden=100, kv_page=8
    ),
    "scaled": Model("scaled", scaled=True, theta=500000.0, k_norm=True, batch=1, rows=3, workers=5),
}


@dataclass(frozen=True)
class Case:
    project: Project
    opened: Any  # the project's binding
    interpreter: Interpreter


@pytest.fixture(scope="module", params=["tiny", *MODELS])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    if request.param == "tiny":
        path = shipped_spec("tiny")
        assert path is not None
        spec = path.read_text()
    else:
        spec = MODELS[request.param].spec()
    project = make_project(spec, tmp_path_factory.mktemp("oracle") / "project")
    with project.opened() as opened:
        yield Case(project, opened, Interpreter(project.plan, project.weights()))


def lengths_of(plan: Plan) -> list[int]:
    """Prompts on both sides of the edges of steps and pages, and the longest that leaves room for a token."""
    rows, page, context = plan.runtime.rows, plan.runtime.kv_page, plan.runtime.context
    return [1, rows - 1, rows, rows + 1, 2 * rows + 3, page, page + 1, context - 3, context]


def test_greedy(case: Case) -> None:
    plan = case.project.plan
    context, batch = plan.runtime.context, plan.runtime.batch
    texts = prompts(plan.vocab, lengths_of(plan))
    requests = [Request(text, min(4, context + 1 - len(text))) for text in texts]
    assert len(requests[-1].prompt) + requests[-1].max_new_tokens == context + 1  # fills the context
    for first in range(0, len(requests), batch):
        some = requests[first : first + batch]
        decoded = decode(case.opened, some)
        assert_agree(decoded, some, interpreter_of(case.interpreter))


def test_a_long_generation_beside_short_ones(case: Case) -> None:
    """One sequence decodes to the end of the context while others come to their end before it."""
    plan = case.project.plan
    lengths = [3, 11, 1, 6][: plan.runtime.batch]
    limits = [plan.runtime.context + 1 - 3, 2, 9, 1]
    texts = prompts(plan.vocab, lengths, seed=1)
    requests = [Request(text, new) for text, new in zip(texts, limits[: len(texts)], strict=True)]
    assert_agree(decode(case.opened, requests), requests, interpreter_of(case.interpreter))


def test_scored_prompts_and_stop_tokens(case: Case) -> None:
    plan = case.project.plan
    texts = prompts(plan.vocab, [9, 2, 19][: plan.runtime.batch], seed=2)
    free = decode(case.opened, [Request(text, 5) for text in texts])
    stop = (free[0].tokens[0],)
    requests = [Request(text, 5, stop=stop, score_prompt=True) for text in texts]
    decoded = decode(case.opened, requests)
    assert decoded[0].finish == "STOP_TOKEN"
    assert_agree(decoded, requests, interpreter_of(case.interpreter))


@pytest.mark.parametrize("constant", ["scale", "rope_theta", "eps"])
def test_a_wrong_constant_shows(case: Case, constant: str) -> None:
    """The tolerance is not so wide that a mistake in attention or in a norm would fit into it."""
    plan, kind = case.project.plan, "rmsnorm" if constant == "eps" else "attention"
    factor = 1e5 if constant == "eps" else 4
    variants = tuple(
        replace(v, constants=tuple((k, x * factor if k == constant else x) for k, x in v.constants))
        if v.kind == kind
        else v
        for v in plan.variants
    )
    wrong = Interpreter(replace(plan, variants=variants), case.project.weights())
    (text,) = prompts(plan.vocab, [plan.runtime.context - 1], seed=3)
    (got,) = decode(case.opened, [Request(text, 1)])
    expected = wrong.generate([Request(text, 1)], np.random.default_rng(0)).logits[0]
    assert relative_error(got.logits, expected) > LOGITS_TOLERANCE
