"""Whether the logits of a timed run are right: against the model in fp32, judged by what bf16 costs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from expected import LIMIT, relative_error
from machine import Unknown

NUMPY_MOST_BYTES = 10**9  # of weights, which NumPy widens
NUMPY_SEQUENCES = 2


@dataclass(frozen=True)
class Judge:
    """The reference. logits: tokens -> logits f32 [vocab] after the last, in fp32 and with bf16 where values
    are stored. most: sequences of a case that it is fast enough for; None: all."""

    logits: Callable[[list[int]], tuple[np.ndarray, np.ndarray]]
    most: int | None


def make_judge(model: dict[str, Any], weights: Path, cuda_torch: bool) -> Judge:
    """PyTorch on a GPU, else NumPy where the model is small enough. Raises Unknown."""
    if cuda_torch:
        import torch
        from torch_reference import TorchReference

        torch_model = TorchReference(model, weights, "cuda")
        return Judge(
            lambda tokens: tuple(torch_model.last_logits(tokens, t) for t in (torch.float32, torch.bfloat16)),
            None,
        )
    if model["weight_bytes"] > NUMPY_MOST_BYTES:
        raise Unknown("the model is too large for NumPy, and there is no PyTorch with CUDA")
    from packed import read_weights
    from reference import Reference

    values = read_weights(model, weights)
    models = [Reference(model, values, rounded=rounded) for rounded in (False, True)]
    return Judge(lambda tokens: tuple(m.logits(tokens)[-1] for m in models), NUMPY_SEQUENCES)


def check_logits(judge: Judge, sequences: list[list[int]], logits: list[np.ndarray]) -> dict[str, Any]:
    """Relative L2 errors of the library and of bf16 over a case, or its first and last sequences."""
    most = judge.most
    chosen = list(range(len(sequences)))
    if most is not None and len(chosen) > most:
        chosen = [*range(most - 1), len(sequences) - 1]
    pairs = [judge.logits(sequences[s]) for s in chosen]
    exact, rounded = (np.stack([pair[i] for pair in pairs]) for i in (0, 1))
    error, bf16 = relative_error(np.stack([logits[s] for s in chosen]), exact), relative_error(rounded, exact)
    return {
        "logits_error": error,
        "logits_error_bf16": bf16,
        "logits_correct": bool(error <= LIMIT * bf16),  # not so for NaN
        "sequences_checked": len(chosen),
    }
