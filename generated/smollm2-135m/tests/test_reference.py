"""Values against the NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from project import MODEL
from prompts import interesting_lengths, random_prompt
from reference import Reference

# Relative L2 error of logits. The library and the rounding reference round to bf16 at the same places, but a
# value near the middle of two neighbours may go either way.
ROUNDED_TOLERANCE = 1e-2
EXACT_TOLERANCE = 2e-2
NEW_TOKENS = 4


def relative_error(value: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(value - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("length", interesting_lengths(MODEL, NEW_TOKENS))
def test_greedy_tokens_and_logits(
    model: Any, spec: dict[str, Any], rounded: Reference, exact: Reference, length: int
) -> None:
    prompt = random_prompt(spec, length)
    (result,) = model.generate([prompt], max_new_tokens=NEW_TOKENS)
    assert len(result.tokens) == NEW_TOKENS
    assert result.finish.name == "LENGTH"

    sequence = prompt + result.tokens.tolist()
    expected = rounded.logits(sequence[:-1])
    for token, logits in zip(result.tokens, expected[length - 1 :], strict=True):
        margin = logits.max() - logits[token]
        assert margin <= ROUNDED_TOLERANCE * np.abs(logits).max(), f"{token} is not the argmax: {margin=}"
    # The logits kept are those the last token was chosen from.
    assert relative_error(model.logits(0), expected[-1]) < ROUNDED_TOLERANCE
    assert relative_error(model.logits(0), exact.logits(sequence[:-1])[-1]) < EXACT_TOLERANCE
    assert int(np.argmax(model.logits(0))) == result.tokens[-1]


def test_decode_across_pages(model: Any, spec: dict[str, Any], rounded: Reference) -> None:
    """Long outputs: every decoded token comes from logits over a cache of several pages."""
    prompt = random_prompt(spec, 3)
    new = min(spec["runtime"]["context"] - 2, 3 * spec["runtime"]["kv_page"])
    (result,) = model.generate([prompt], max_new_tokens=new)
    expected = rounded.logits(prompt + result.tokens.tolist()[:-1])[2:]
    margins = expected.max(axis=1) - expected[np.arange(new), result.tokens]
    assert margins.max() <= ROUNDED_TOLERANCE * np.abs(expected).max()
    assert (expected.argmax(axis=1) == result.tokens).mean() > 0.9
    assert relative_error(model.logits(0), expected[-1]) < ROUNDED_TOLERANCE


def test_score_prompt(model: Any, spec: dict[str, Any], rounded: Reference) -> None:
    lengths = [2, min(spec["runtime"]["kv_page"] + 3, spec["runtime"]["context"] - 1), 11]
    prompts = [random_prompt(spec, n) for n in lengths[: spec["runtime"]["batch"]]]
    results = model.generate(prompts, max_new_tokens=2, score_prompt=True)
    for prompt, result in zip(prompts, results, strict=True):
        expected = rounded.logprobs(prompt + result.tokens.tolist())
        assert np.isnan(result.logprobs[0])
        np.testing.assert_allclose(result.logprobs[1:], expected[1:], atol=0.06)


def test_score_prompt_changes_no_token(model: Any, spec: dict[str, Any]) -> None:
    prompt = random_prompt(spec, min(2 * spec["runtime"]["rows"] + 1, spec["runtime"]["context"] - 4))
    (scored,) = model.generate([prompt], max_new_tokens=5, score_prompt=True)
    (plain,) = model.generate([prompt], max_new_tokens=5)
    np.testing.assert_array_equal(scored.tokens, plain.tokens)
    np.testing.assert_array_equal(scored.logprobs[len(prompt) :], plain.logprobs[len(prompt) :])
    assert np.isnan(plain.logprobs[: len(prompt)]).all()


def test_logprobs_of_generated_tokens_are_those_of_the_logits(model: Any, spec: dict[str, Any]) -> None:
    (result,) = model.generate([random_prompt(spec, 5)], max_new_tokens=3, temperature=1.5, seed=9)
    logits = model.logits(0).astype(np.float64)
    expected = logits[result.tokens[-1]] - logits.max() - np.log(np.exp(logits - logits.max()).sum())
    assert result.logprobs[-1] == pytest.approx(expected, abs=1e-4)


def test_full_context(model: Any, spec: dict[str, Any], exact: Reference) -> None:
    """prompt + new tokens may be context + 1 long: the last token needs no place in the cache."""
    context = spec["runtime"]["context"]
    if context > 600:
        pytest.skip("the reference is slow at this context")
    prompts = [random_prompt(spec, context), random_prompt(spec, 1)][: spec["runtime"]["batch"]]
    results = model.generate(prompts, max_new_tokens=[1, context][: len(prompts)])
    assert len(results[0].tokens) == 1
    assert len(results[-1].tokens) == (context if len(prompts) > 1 else 1)
    assert relative_error(model.logits(0), exact.logits(prompts[0])[-1]) < EXACT_TOLERANCE
    last = prompts[-1] + results[-1].tokens.tolist()
    assert relative_error(model.logits(len(prompts) - 1), exact.logits(last[:-1])[-1]) < EXACT_TOLERANCE
    assert not np.isnan(results[-1].logprobs[len(prompts[-1]) :]).any()
