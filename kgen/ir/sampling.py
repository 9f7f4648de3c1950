"""How a token is chosen from logits: the NumPy meaning of `sample`, word for word that of its C++ task."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kgen.ir.machine import Array, Request

# Probabilities are integers in units of this fraction of the most likely token's, so that sums are exact.
MASS_UNITS = 1 << 40
_WORD = (1 << 64) - 1
_HALF = (1 << 32) - 1


def log_softmax_at(logits: Array, token: int) -> np.float32:
    """Log-probability of a token at temperature 1. logits f32 [vocab]."""
    shifted = logits.astype(np.float64) - float(logits.max())
    return np.float32(shifted[token] - np.log(np.exp(shifted).sum()))


def choose(logits: Array, request: Request, position: int) -> int:
    """The token at `position` of a sequence. logits f32 [vocab]; of equal maxima the lowest index."""
    if request.temperature <= 0:
        return int(np.argmax(logits))
    mass = kept_masses(logits, request)
    running = np.cumsum(mass, dtype=np.uint64)
    target = philox(request.seed, position) * int(running[-1]) >> 64
    return int(np.searchsorted(running, np.uint64(target), side="right"))


def kept_masses(logits: Array, request: Request) -> npt.NDArray[np.uint64]:
    """The probability of every token after temperature, top_k and top_p, as integers; 0 for one left out."""
    with np.errstate(under="ignore"):
        relative = np.exp((logits - logits.max()) / np.float32(request.temperature), dtype=np.float32)
    mass: npt.NDArray[np.uint64] = (relative * np.float32(MASS_UNITS)).astype(np.uint64)
    if 0 < request.top_k < len(logits):
        mass[logits < np.sort(logits)[-request.top_k]] = 0
    if 0 < request.top_p < 1:
        order = np.argsort(-logits, kind="stable")
        running = np.cumsum(mass[order], dtype=np.uint64)
        wanted = int(float(np.float32(request.top_p)) * float(running[-1]))
        last = int(np.searchsorted(running, np.uint64(max(wanted, 1))))  # the token whose mass reaches it
        mass[logits < logits[order[last]]] = 0
    return mass


def philox(key: int, counter: int) -> int:
    """64 random bits: Philox4x32-10 (Salmon et al., 2011)."""
    k0, k1 = key & _HALF, key >> 32 & _HALF
    c = [counter & _HALF, counter >> 32 & _HALF, 0, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k0, b & _HALF, a >> 32 ^ c[3] ^ k1, a & _HALF]
        k0, k1 = k0 + 0x9E3779B9 & _HALF, k1 + 0xBB67AE85 & _HALF
    return (c[1] << 32 | c[0]) & _WORD
