"""What the references say of some rows, and how far from it results may be.

The measure is what bf16 costs the model: the distance of the reference that rounds to bf16 from the one that
does not. Rounding at other places costs as much, but other errors: two such results are sqrt(2) times as far
from each other as each is from the exact one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

Array = np.ndarray

# Times the cost of bf16, over all rows of a test. Other places of rounding were seen to cost 0.95 to 1.1
# times as much over four rows and more, up to 1.3 times over the log-probabilities of 30 positions.
LIMIT = 1.5
ROW_LIMIT = 2 * LIMIT  # for each row alone; up to 1.6 was seen
# Standard deviations of one log-probability's error. It is a sum of many small errors, so nearly normal: one
# in a million is farther from the middle.
DEVIATIONS = 5
# Relative L2 distance from the reference that rounds, of a library that rounds at the same places. A value
# near the middle of two neighbours may still go either way, which changes what comes after it.
ALIKE_LIMIT = 1e-2


@dataclass(frozen=True)
class Expected:
    """Logits f64 [rows, vocab] without rounding and rounded to bf16.

    alike: whether the library rounds at the places where the reference does.
    """

    exact: Array
    rounded: Array
    alike: bool

    def rows(self, which: slice) -> Expected:
        """Some of the rows."""
        return Expected(self.exact[which], self.rounded[which], self.alike)

    @staticmethod
    def join(parts: Sequence[Expected]) -> Expected:
        """The rows of all parts."""
        exact, rounded = (np.concatenate([getattr(p, name) for p in parts]) for name in ("exact", "rounded"))
        return Expected(exact, rounded, parts[0].alike)

    def check_logits(self, logits: Array) -> None:
        """Logits [rows, vocab] of the library are right."""
        cost = relative_error(self.rounded, self.exact)
        _check_rows(logits, self.exact, cost)
        if self.alike:
            error = relative_error(logits, self.rounded)
            assert error < ALIKE_LIMIT, f"off by {error:.4f} from the reference that rounds alike"

    def check_two_logits(self, one: Array, other: Array) -> None:
        """Two results [rows, vocab] that are rounded at different places are the same but for that."""
        _check_rows(one, other, sqrt(2) * relative_error(self.rounded, self.exact))

    def check_choices(self, tokens: Array) -> None:
        """Tokens [rows] are the most likely ones, or were within the errors of two logits of that."""
        wanted = self.rounded if self.alike else self.exact
        margins = wanted.max(axis=1) - wanted[np.arange(len(tokens)), tokens]
        most = DEVIATIONS * LIMIT * sqrt(2) * _rms(self.rounded - self.exact)
        if self.alike:
            most = ALIKE_LIMIT * np.abs(self.rounded).max()
        assert margins.max() <= most, f"row {margins.argmax()} chose another token"
        assert (margins == 0).mean() > 0.9

    def check_logprobs(self, tokens: Array, values: Array) -> None:
        """Log-probabilities [rows] of the token that comes after each row are right."""
        rows = np.arange(len(tokens))
        exact, rounded = (log_softmax(x)[rows, tokens] for x in (self.exact, self.rounded))
        _check_values(values, exact, LIMIT * self._logprob_cost)
        if self.alike:  # 0.6 times the cost was seen
            _check_values(values, rounded, self._logprob_cost)

    def check_two_logprobs(self, one: Array, other: Array) -> None:
        """Two results as for `check_two_logits`, of log-probabilities [rows]."""
        _check_values(one, other, LIMIT * sqrt(2) * self._logprob_cost)

    @property
    def _logprob_cost(self) -> float:
        """Of all tokens of the vocabulary, as that is a better mean than over those that were chosen."""
        return _rms(log_softmax(self.rounded) - log_softmax(self.exact))


def relative_error(values: Array, expected: Array) -> float:
    """Relative L2 distance."""
    return float(np.linalg.norm(values - expected) / np.linalg.norm(expected))


def log_softmax(logits: Array) -> Array:
    """Logarithms of the probabilities, over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


# The comparisons below are false for NaN.


def _check_rows(logits: Array, expected: Array, cost: float) -> None:
    assert logits.shape == expected.shape
    error = relative_error(logits, expected)
    errors = [relative_error(*pair) for pair in zip(logits, expected, strict=True)]
    assert error <= LIMIT * cost, f"off by {error:.4f}, where bf16 costs {cost:.4f}; by row: {errors}"
    for row, one in enumerate(errors):
        assert one <= ROW_LIMIT * cost, f"row {row} is off by {one:.4f}, where bf16 costs {cost:.4f}"


def _check_values(values: Array, expected: Array, limit: float) -> None:
    assert values.shape == expected.shape
    errors = np.abs(values - expected)
    error, most = _rms(errors), errors.max()
    assert error <= limit, f"off by {error:.4f} (rms), more than {limit:.4f}"
    assert most <= DEVIATIONS * limit, f"value {errors.argmax()} is off by {most:.4f}: {limit=:.4f}"


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
