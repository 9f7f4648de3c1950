"""Results of a sequence do not depend on the rest of the batch, on chunks, on workers, or on the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from prompts import random_prompt


def mixed_prompts(spec: dict[str, Any]) -> list[list[int]]:
    """A full batch of different lengths; some longer than the rows of a step."""
    runtime = spec["runtime"]
    longest = min(3 * runtime["rows"] + 5, runtime["context"] // 2)
    return [
        random_prompt(spec, 1 + (13 * s + longest - 1) % longest, seed=s) for s in range(runtime["batch"])
    ]


def outcome(model: Any, results: list[Any], s: int) -> tuple[list[int], bytes, bytes]:
    """Everything a sequence produced, bit by bit."""
    return results[s].tokens.tolist(), results[s].logprobs.tobytes(), model.logits(s).tobytes()


def test_alone_or_in_a_batch(model: Any, spec: dict[str, Any]) -> None:
    prompts = mixed_prompts(spec)
    limits = [min(3 + 5 * s % 17, spec["runtime"]["context"] // 2) for s in range(len(prompts))]
    together = model.generate(prompts, max_new_tokens=limits)
    expected = [outcome(model, together, s) for s in range(len(prompts))]
    for s, prompt in enumerate(prompts):
        alone = model.generate([prompt], max_new_tokens=limits[s])
        assert outcome(model, alone, 0) == expected[s], f"sequence {s}"


def test_every_batch_size(model: Any, spec: dict[str, Any]) -> None:
    prompts = mixed_prompts(spec)
    full = model.generate(prompts, max_new_tokens=4)
    for count in range(1, len(prompts)):
        part = model.generate(prompts[:count], max_new_tokens=4)
        for s in range(count):
            np.testing.assert_array_equal(part[s].tokens, full[s].tokens)
            np.testing.assert_array_equal(part[s].logprobs, full[s].logprobs)


def test_chunks_give_what_single_rows_give(model: Any, spec: dict[str, Any], alike: bool) -> None:
    """score_prompt reads a prompt one row a step, without it the prompt is read in chunks.

    Beside the cluster worker another kernel reads prompts that are longer than a step: test_reference.py.
    """
    rows, context = spec["runtime"]["rows"], spec["runtime"]["context"]
    prompt = random_prompt(spec, min(3 * rows + 1 if alike else rows, context - 8))
    (chunks,) = model.generate([prompt], max_new_tokens=6)
    logits = model.logits(0)
    (single,) = model.generate([prompt], max_new_tokens=6, score_prompt=True)
    np.testing.assert_array_equal(chunks.tokens, single.tokens)
    np.testing.assert_array_equal(model.logits(0), logits)


def test_runs_are_equal(model: Any, spec: dict[str, Any]) -> None:
    prompts = mixed_prompts(spec)
    first = model.generate(prompts, max_new_tokens=8)
    expected = [outcome(model, first, s) for s in range(len(prompts))]
    for run in range(50):
        again = model.generate(prompts, max_new_tokens=8)
        assert [outcome(model, again, s) for s in range(len(prompts))] == expected, f"run {run}"


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_worker_counts(make_model: Callable[..., Any], spec: dict[str, Any], count: int) -> None:
    prompts = mixed_prompts(spec)
    expected = make_model(workers=4).generate(prompts, max_new_tokens=6)
    other = make_model(workers=count)
    assert other.info.workers == count
    for result, want in zip(other.generate(prompts, max_new_tokens=6), expected, strict=True):
        np.testing.assert_array_equal(result.tokens, want.tokens)
        np.testing.assert_array_equal(result.logprobs, want.logprobs)


def test_small_cache(model: Any, make_model: Callable[..., Any], spec: dict[str, Any]) -> None:
    """A cache with just the pages that one sequence needs."""
    page, context = spec["runtime"]["kv_page"], spec["runtime"]["context"]
    if context <= page or model.info.kv_tokens <= 2 * page:
        pytest.skip("a sequence has one page at most, or all of them have two")
    prompt, new = random_prompt(spec, page + 1), min(page, context - page)
    small = make_model(kv_tokens=2 * page)
    assert small.info.kv_tokens == 2 * page
    assert small.info.kv_bytes < model.info.kv_bytes
    (result,) = small.generate([prompt], max_new_tokens=new)
    (expected,) = model.generate([prompt], max_new_tokens=new)
    np.testing.assert_array_equal(result.tokens, expected.tokens)
