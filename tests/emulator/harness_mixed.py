"""Joins the tests of a generated project where it is emulated: small batches of all kinds of lengths."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from expected import Expected
from prompts import random_prompt

# Prompt lengths and new tokens of each sequence: one row, eight and sixteen of them; the ends of units of
# 16 tokens and of pages; one long sequence, so that its attention is divided; steps that get fewer rows.
# Where the prefill kernel is there it reads the prompts of more than a step, of the last call in two passes.
CALLS = [
    ([1], [3]),
    ([2, 1], [2, 4]),
    ([15, 17], [3, 1]),
    ([33], [3]),
    ([1, 16, 17, 30], [4, 1, 2, 3]),
    ([100, 1, 5], [2, 4, 1]),
]
LONG_CALLS = [
    ([65, 300], [2, 1]),
    ([480, 129, 100, 17], [1, 2, 1, 1]),
]


def test_the_cluster_worker_runs(model: Any) -> None:
    """All whole clusters; the general worker would have all SMs, which are four more."""
    assert model.info.cuda
    assert model.info.workers == 8 * int(os.environ["EMULATOR_CLUSTERS"])


def test_batches_of_mixed_lengths(model: Any, spec: dict[str, Any], expect: Callable[..., Expected]) -> None:
    """Each sequence's last logits are right, and those of a second run, whose order differs, are the same."""
    check_calls(model, spec, expect, CALLS)


def test_long_prompts(model: Any, spec: dict[str, Any], expect: Callable[..., Expected]) -> None:
    """Rows whose attention has more results than there is room for at a time; two passes of the prefill."""
    check_calls(model, spec, expect, LONG_CALLS)


def check_calls(
    model: Any,
    spec: dict[str, Any],
    expect: Callable[..., Expected],
    calls: list[tuple[list[int], list[int]]],
) -> None:
    logits, expected = [], []
    for lengths, new in calls:
        prompts = [random_prompt(spec, n, seed=s) for s, n in enumerate(lengths)]
        results = model.generate(prompts, max_new_tokens=new)
        first = [model.logits(s) for s in range(len(prompts))]
        for prompt, result in zip(prompts, results, strict=True):
            sequence = prompt + result.tokens.tolist()[:-1]
            expected.append(expect(sequence, first=len(sequence) - 1))
        logits += first
        again = model.generate(prompts, max_new_tokens=new)
        for s in range(len(prompts)):
            np.testing.assert_array_equal(again[s].tokens, results[s].tokens)
            np.testing.assert_array_equal(model.logits(s), first[s], err_msg=f"{lengths}: sequence {s}")
    Expected.join(expected).check_logits(np.stack(logits))


def test_drawn_tokens_do_not_depend_on_the_order(model: Any, spec: dict[str, Any]) -> None:
    prompts = [random_prompt(spec, n, seed=n) for n in (3, 5)]
    options = {"max_new_tokens": 4, "temperature": [1.0, 0.0], "seed": 3}
    first, again = (model.generate(prompts, **options) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.tokens, other.tokens)
