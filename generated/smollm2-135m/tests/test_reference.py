"""Values against the NumPy references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from expected import Expected, log_softmax
from project import MODEL
from prompts import interesting_lengths, random_prompt

Expect = Callable[..., Expected]

NEW_TOKENS = 4
SCORED = 200  # positions, so many that the mean of their errors says something


@pytest.mark.parametrize("length", interesting_lengths(MODEL, NEW_TOKENS))
def test_greedy_tokens_and_logits(model: Any, spec: dict[str, Any], expect: Expect, length: int) -> None:
    """A call for each number of new tokens, as the logits of the last are kept."""
    prompt = random_prompt(spec, length)
    kept = []
    for new in range(1, NEW_TOKENS + 1):
        (result,) = model.generate([prompt], max_new_tokens=new)
        assert len(result.tokens) == new
        assert result.finish.name == "LENGTH"
        kept.append(model.logits(0))
    tokens = result.tokens.tolist()
    # The logits kept are those the last token was chosen from.
    np.testing.assert_array_equal(np.argmax(kept, axis=1), tokens)
    expect(prompt + tokens[:-1], first=length - 1).check_logits(np.stack(kept))


def test_decode_across_pages(model: Any, spec: dict[str, Any], expect: Expect) -> None:
    """Long outputs: every decoded token comes from logits over a cache of several pages."""
    runtime = spec["runtime"]
    prompts = [random_prompt(spec, 3, seed=s) for s in range(min(4, runtime["batch"]))]
    new = min(runtime["context"] - 2, 3 * runtime["kv_page"])
    results = model.generate(prompts, max_new_tokens=new)
    rows = [expect(p + r.tokens.tolist()[:-1], first=2) for p, r in zip(prompts, results, strict=True)]
    expected = Expected.join(rows)
    tokens = np.concatenate([result.tokens for result in results])
    expected.check_choices(tokens)
    expected.check_logprobs(tokens, np.concatenate([result.logprobs[3:] for result in results]))
    last = Expected.join([expected.rows(slice(-1, None)) for expected in rows])
    last.check_logits(np.stack([model.logits(s) for s in range(len(prompts))]))


def test_score_prompt(model: Any, spec: dict[str, Any], expect: Expect) -> None:
    page, context = spec["runtime"]["kv_page"], spec["runtime"]["context"]
    lengths = [min(max(page + 3, SCORED), context - 1), 2, 11]
    prompts = [random_prompt(spec, n) for n in lengths[: spec["runtime"]["batch"]]]
    results = model.generate(prompts, max_new_tokens=2, score_prompt=True)
    sequences = [p + r.tokens.tolist() for p, r in zip(prompts, results, strict=True)]
    assert all(np.isnan(result.logprobs[0]) for result in results)
    expected = Expected.join([expect(sequence[:-1]) for sequence in sequences])
    after = np.concatenate([sequence[1:] for sequence in sequences])
    expected.check_logprobs(after, np.concatenate([result.logprobs[1:] for result in results]))


def test_score_prompt_changes_no_token(model: Any, spec: dict[str, Any], alike: bool) -> None:
    rows, context = spec["runtime"]["rows"], spec["runtime"]["context"]
    prompt = random_prompt(spec, min(2 * rows + 1 if alike else rows, context - 4))
    (scored,) = model.generate([prompt], max_new_tokens=5, score_prompt=True)
    (plain,) = model.generate([prompt], max_new_tokens=5)
    np.testing.assert_array_equal(scored.tokens, plain.tokens)
    np.testing.assert_array_equal(scored.logprobs[len(prompt) :], plain.logprobs[len(prompt) :])
    assert np.isnan(plain.logprobs[: len(prompt)]).all()


def test_score_prompt_changes_logits_by_their_rounding(
    model: Any, spec: dict[str, Any], expect: Expect
) -> None:
    """Beside the cluster worker another kernel reads prompts that are longer than a step and not scored, and
    it rounds at other places.
    """
    length = min(2 * spec["runtime"]["rows"] + 1, spec["runtime"]["context"])
    prompts = [random_prompt(spec, length, seed=s) for s in range(4)]
    logits = []
    for score_prompt in (False, True):
        kept = []
        for prompt in prompts:
            model.generate([prompt], max_new_tokens=1, score_prompt=score_prompt)
            kept.append(model.logits(0))
        logits.append(np.stack(kept))
    Expected.join([expect(prompt, first=length - 1) for prompt in prompts]).check_two_logits(*logits)


def test_logprobs_of_generated_tokens_are_those_of_the_logits(model: Any, spec: dict[str, Any]) -> None:
    (result,) = model.generate([random_prompt(spec, 5)], max_new_tokens=3, temperature=1.5, seed=9)
    expected = log_softmax(model.logits(0).astype(np.float64))[result.tokens[-1]]
    assert result.logprobs[-1] == pytest.approx(expected, abs=1e-4)


def test_full_context(model: Any, spec: dict[str, Any], expect: Expect) -> None:
    """prompt + new tokens may be context + 1 long: the last token needs no place in the cache."""
    context = spec["runtime"]["context"]
    if context > 600:
        pytest.skip("the reference is slow at this context")
    prompts = [random_prompt(spec, context), random_prompt(spec, 1)][: spec["runtime"]["batch"]]
    results = model.generate(prompts, max_new_tokens=[1, context][: len(prompts)])
    assert len(results[0].tokens) == 1
    assert len(results[-1].tokens) == (context if len(prompts) > 1 else 1)
    sequences = [p + r.tokens.tolist()[:-1] for p, r in zip(prompts, results, strict=True)]
    last = Expected.join([expect(sequence, first=context - 1) for sequence in sequences])
    last.check_logits(np.stack([model.logits(s) for s in range(len(prompts))]))
    assert not np.isnan(results[-1].logprobs[len(prompts[-1]) :]).any()
