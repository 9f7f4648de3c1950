"""How a token is chosen from logits, for the NumPy meaning of `sample`."""

from __future__ import annotations

import numpy as np

from kgen.ir.machine import Array, Request

MASS_BITS = 32  # probabilities relative to the best token's, as integers of this many bits
_WORD = (1 << 64) - 1


def log_softmax_at(logits: Array, token: int) -> np.float32:
    """Log-probability of a token at temperature 1. logits f32 [vocab]."""
    shifted = logits.astype(np.float64) - float(logits.max())
    return np.float32(shifted[token] - np.log(np.exp(shifted).sum()))


def choose(logits: Array, request: Request, position: int) -> int:
    """The token at `position` of a sequence. logits f32 [vocab]; of equal maxima the lowest index."""
    if request.temperature <= 0:
        return int(np.argmax(logits))
    mass = kept_masses(logits, request)
    target = random_word(request.seed, position) * int(mass.sum()) >> 64
    return int(np.searchsorted(np.cumsum(mass), target, side="right"))


def kept_masses(logits: Array, request: Request) -> Array:
    """Integer probabilities of every token after temperature, top_k and top_p; 0 for one that is left out."""
    scaled = logits / np.float32(request.temperature)
    kept = np.ones(len(scaled), dtype=np.bool_)
    if 0 < request.top_k < len(scaled):
        kept = scaled >= np.sort(scaled)[-request.top_k]
    mass = np.where(kept, np.exp(scaled - scaled.max(), dtype=np.float32) * np.float32(1 << MASS_BITS), 0)
    mass = mass.astype(np.uint64)
    if request.top_p < 1:
        descending = np.sort(mass)[::-1]
        needed = int(np.ceil(float(request.top_p) * float(mass.sum())))
        last = min(int(np.searchsorted(np.cumsum(descending), needed)), len(mass) - 1)
        mass = np.where(mass >= max(int(descending[last]), 1), mass, 0)
    return mass


def random_word(seed: int, position: int) -> int:
    """64 random bits that depend on the seed and the position only (two rounds of splitmix64)."""
    return _mix(_mix(seed & _WORD) ^ (position & _WORD))


def _mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _WORD
    return x ^ (x >> 31)
