"""What a library decoded against what the interpreter makes of the same plan and weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kgen.ir.machine import Array, Request
from kgen.plan.interp import Interpreter, Result

# Relative L2 error of logits. Both round to bf16 at the same places but add in another order, so that a value
# near the middle of two neighbours may go either way.
LOGITS_TOLERANCE = 2e-2
# Of a logit, as a part of the largest: tokens this close to the best may be chosen instead of it.
TIE = 1e-2
LOGPROB_TOLERANCE = 0.1


@dataclass(frozen=True)
class Decoded:
    """One sequence of a library's call; logits f32 [vocab] of its last step."""

    tokens: list[int]
    finish: str
    logprobs: Array
    logits: Array


def decode(model: Any, requests: Sequence[Request]) -> list[Decoded]:
    """Run requests with the same stop tokens and score_prompt through the binding of a project."""
    first = requests[0]
    assert all((r.stop, r.score_prompt) == (first.stop, first.score_prompt) for r in requests)
    results = model.generate(
        [list(r.prompt) for r in requests],
        max_new_tokens=[r.max_new_tokens for r in requests],
        temperature=[r.temperature for r in requests],
        top_k=[r.top_k for r in requests],
        top_p=[r.top_p for r in requests],
        seed=[r.seed for r in requests],
        stop_tokens=list(first.stop),
        score_prompt=first.score_prompt,
    )
    return [
        Decoded(r.tokens.tolist(), r.finish.name, r.logprobs, model.logits(s)) for s, r in enumerate(results)
    ]


def relative_error(value: Array, expected: Array) -> float:
    """L2 norm of the difference as a part of that of `expected`."""
    return float(np.linalg.norm(value - expected) / np.linalg.norm(expected))


def assert_agree(
    decoded: Sequence[Decoded], requests: Sequence[Request], interpret: Callable[[list[Request]], Result]
) -> float:
    """Greedy tokens are equal but for near ties, and so are log-probabilities and logits; the largest error.

    After a near tie that fell the other way, the interpreter goes on from the library's tokens.
    """
    result = interpret(list(requests))
    errors = []
    for s, (got, request) in enumerate(zip(decoded, requests, strict=True)):
        sequence, logits = result.sequences[s], result.logits[s]
        assert len(got.tokens) == len(sequence.tokens)
        assert got.finish == sequence.finish.name
        for i, token in enumerate(got.tokens):
            if token != sequence.tokens[i]:
                given = (*request.prompt, *got.tokens)[: len(request.prompt) + i]
                choice = interpret([Request(given, 1)]).logits[0]
                assert choice.max() - choice[token] <= TIE * np.abs(choice).max(), f"sequence {s} token {i}"
        if got.tokens != sequence.tokens:
            forced = replace(request, prompt=(*request.prompt, *got.tokens[:-1]), max_new_tokens=1)
            logits = interpret([forced]).logits[0]
        else:
            _assert_logprobs(got.logprobs, sequence.logprobs)
        errors.append(relative_error(got.logits, logits))
        assert errors[-1] < LOGITS_TOLERANCE, f"sequence {s}"
    return max(errors)


def _assert_logprobs(got: Array, expected: dict[int, float]) -> None:
    recorded = sorted(expected)
    assert np.flatnonzero(~np.isnan(got)).tolist() == recorded
    np.testing.assert_allclose(got[recorded], [expected[p] for p in recorded], atol=LOGPROB_TOLERANCE)


def interpreter_of(interpreter: Interpreter) -> Callable[[list[Request]], Result]:
    """Runs requests, in one of the orders that the events allow."""
    return lambda requests: interpreter.generate(requests, np.random.default_rng(11))


def prompts(vocab: int, lengths: Sequence[int], seed: int = 0) -> list[tuple[int, ...]]:
    """Random tokens."""
    rng = np.random.default_rng(seed)
    return [tuple(rng.integers(0, vocab, n).tolist()) for n in lengths]
