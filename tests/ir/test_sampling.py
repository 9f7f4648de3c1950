from __future__ import annotations

import math

import numpy as np
import pytest

from kgen.ir.machine import Request
from kgen.ir.sampling import choose, kept_masses, log_softmax_at, philox

LOGITS = np.array([1.0, 3.0, -2.0, 3.0, 0.5, 2.0], dtype=np.float32)


def request(**options: float) -> Request:
    return Request(prompt=(1,), max_new_tokens=1, **options)  # type: ignore[arg-type]


def kept(**options: float) -> list[int]:
    return np.flatnonzero(kept_masses(LOGITS, request(temperature=1.0, **options))).tolist()


def test_philox_gives_the_published_words() -> None:
    # Random123's known answer for philox4x32-10 with counter and key zero begins 6627e8d5 e169c58d.
    assert philox(0, 0) == 0xE169C58D_6627E8D5


def test_without_a_temperature_the_lowest_of_equal_maxima_wins() -> None:
    assert choose(LOGITS, request(), position=5) == 1


def test_log_probability() -> None:
    total = math.fsum(math.exp(x) for x in LOGITS.tolist())
    for token, logit in enumerate(LOGITS.tolist()):
        assert log_softmax_at(LOGITS, token) == pytest.approx(logit - math.log(total), abs=1e-6)


@pytest.mark.parametrize(
    ("top_k", "expected"),
    [(0, [0, 1, 2, 3, 4, 5]), (1, [1, 3]), (2, [1, 3]), (3, [1, 3, 5]), (6, [0, 1, 2, 3, 4, 5])],
)
def test_top_k_keeps_ties(top_k: int, expected: list[int]) -> None:
    assert kept(top_k=top_k) == expected


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    p = np.exp(LOGITS.astype(np.float64))
    p /= p.sum()
    # The two maxima have 0.40 each: either alone reaches 0.3, but ties stay together.
    assert kept(top_p=0.3) == [1, 3]
    both = float(p[1] + p[3])
    assert kept(top_p=both - 0.001) == [1, 3]
    assert kept(top_p=both + 0.001) == [1, 3, 5]
    assert kept(top_p=1e-9) == [1, 3]
    assert kept(top_p=1.0) == [0, 1, 2, 3, 4, 5]


def test_top_p_is_of_what_top_k_left() -> None:
    # Of 3, 3 and 2 the maxima have 0.845; of all six 0.79.
    assert kept(top_k=3, top_p=0.82) == [1, 3]
    assert kept(top_p=0.82) == [1, 3, 5]


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.9}])
def test_frequencies_are_the_probabilities(options: dict[str, float]) -> None:
    options = {"temperature": 1.3, **options}
    mass = kept_masses(LOGITS, request(**options)).astype(np.float64)
    count = 20000
    drawn = np.bincount(
        [choose(LOGITS, request(seed=11, **options), position) for position in range(count)],
        minlength=len(LOGITS),
    )
    expected = mass / mass.sum()
    scaled = np.exp(LOGITS.astype(np.float64) / options["temperature"]) * (mass > 0)
    np.testing.assert_allclose(expected, scaled / scaled.sum(), rtol=1e-5)
    # Five standard deviations of a binomial count.
    assert (np.abs(drawn - count * expected) <= 5 * np.sqrt(count * expected * (1 - expected)) + 1e-9).all()


def test_the_seed_and_the_position_decide() -> None:
    draws = {choose(LOGITS, request(temperature=1.0, seed=s), p) for s in range(5) for p in range(5)}
    assert len(draws) > 1
    same = [choose(LOGITS, request(temperature=1.0, seed=3), 7) for _ in range(3)]
    assert len(set(same)) == 1
