"""Random models, from a spec to a compiled library, against the reference of the project's own harness."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kgen.ir.machine import Request
from tests.oracle.compare import LOGITS_TOLERANCE, TIE, decode, prompts, relative_error
from tests.oracle.models import Model, random_model
from tests.oracle.project import Project, make_project

SEEDS = (4, 6, 13, 21, 36)


def requests_for(m: Model, seed: int) -> list[Request]:
    """As many sequences as the library takes: one fills the context with its prompt, one by decoding."""
    rng = np.random.default_rng(seed)
    lengths = [int(n) for n in rng.integers(1, m.context + 1, m.batch)]
    lengths[0] = m.context
    if m.batch > 1:
        lengths[1] = max(1, m.context - 12)
    texts = prompts(m.vocab, lengths, seed)
    return [Request(text, min(13, m.context + 1 - len(text))) for text in texts]


def check(project: Project, m: Model, seed: int, workers: int) -> float:
    """Decode and compare every token and the last logits; the largest relative error."""
    reference = project.harness("reference").Reference(project.model, project.weights(), rounded=True)
    requests = requests_for(m, seed)
    with project.opened(workers=workers) as opened:
        decoded = decode(opened, requests)
    errors = []
    for got, request in zip(decoded, requests, strict=True):
        assert len(got.tokens) == request.max_new_tokens
        text = [*request.prompt, *got.tokens]
        expected = reference.logits(text[:-1])[len(request.prompt) - 1 :]
        for token, logits in zip(got.tokens, expected, strict=True):
            assert logits.max() - logits[token] <= TIE * np.abs(logits).max()
        errors.append(relative_error(got.logits, expected[-1]))
    assert max(errors) < LOGITS_TOLERANCE
    return max(errors)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_model(seed: int, tmp_path: Path) -> None:
    model = random_model(seed)
    project = make_project(model.spec(), tmp_path / "project")
    for workers in (0, 3):
        check(project, model, seed, workers)
