"""Times of a model, and whether its output stays the same."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

from cases import Request

MOST_CALLS = 10  # of an endurance run, where the context allows calls that long


@dataclass(frozen=True)
class Timing:
    """Times of a request, and what its last call computed.

    steps: microseconds, one for each pair of calls, in order of size. first_token_ms: for prompts as long as
    the context. changed: calls whose output is not that of the first. sequences: prompt and tokens of each,
    but for the last token; logits: f32 [vocab] after them, from the library.
    """

    steps: list[float]
    first_token_ms: float
    changed: int
    sequences: list[list[int]]
    logits: list[Any]

    @property
    def step_us(self) -> float | None:
        """The median; None where noise leaves no positive time."""
        median = statistics.median(self.steps)
        return median if median > 0 else None


def prompts(model: Any, batch: int, length: int) -> list[list[int]]:
    """Prompts that differ in every place."""
    vocab = model.info.vocab
    return [[(31 * s + 7 * i) % vocab for i in range(length)] for s in range(batch)]


def call(model: Any, given: list[list[int]], new: int) -> tuple[float, tuple[Any, ...]]:
    """Seconds of one greedy call, and its output: tokens, and the bits of the logits, of each sequence."""
    begin = time.perf_counter()
    model.start(given, max_new_tokens=new)
    model.wait()
    seconds = time.perf_counter() - begin
    tokens = tuple(tuple(int(t) for t in model.tokens(s)[0]) for s in range(len(given)))
    return seconds, (tokens, tuple(model.logits(s).tobytes() for s in range(len(given))))


def measure(model: Any, request: Request, repeats: int) -> Timing:
    """Time `repeats` pairs of calls; the two of a pair differ only in the number of tokens."""
    context = round(request.context)
    whole = prompts(model, request.batch, context)
    call(model, whole, 1)
    first_token = statistics.median(call(model, whole, 1)[0] for _ in range(repeats))
    given = prompts(model, request.batch, request.prompt)
    _, first = call(model, given, request.tokens)
    steps, changed = [], 0
    for _ in range(repeats):
        short, _ = call(model, given, 1)
        long, output = call(model, given, request.tokens)
        steps.append(1e6 * (long - short) / (request.tokens - 1))
        changed += output != first
    sequences = [prompt + list(new[:-1]) for prompt, new in zip(given, first[0], strict=True)]
    logits = [model.logits(s) for s in range(request.batch)]
    return Timing(sorted(steps), 1e3 * first_token, changed, sequences, logits)


def endurance_tokens(request: Request, steps: int, context: int) -> int:
    """Tokens of each call of an endurance run."""
    return max(1, min(-(-steps // MOST_CALLS), context + 1 - request.prompt))


def endure(model: Any, request: Request, steps: int) -> dict[str, Any]:
    """Decode `steps` steps or more in equal calls, two or more, and count those whose output differs."""
    given = prompts(model, request.batch, request.prompt)
    new = endurance_tokens(request, steps, model.info.context)
    calls = max(2, -(-steps // new))
    seconds, first = call(model, given, new)
    changed = 0
    for _ in range(calls - 1):
        more, output = call(model, given, new)
        seconds += more
        changed += output != first
    return {"steps": calls * new, "calls": calls, "changed": changed, "seconds": round(seconds, 3)}
