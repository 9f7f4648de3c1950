"""Random weights made by PyTorch on a GPU, which takes seconds where NumPy takes minutes."""

from __future__ import annotations

import numpy as np
import torch


def normal_rows(
    rows: int, columns: int, stride: int, mean: float, deviation: float, seed: list[int]
) -> np.ndarray:
    """`normal_rows` of tests/packed.py, other numbers of the same distribution."""
    generator = torch.Generator("cuda").manual_seed(seed[0] << 32 | seed[1])
    values = torch.randn(rows, columns, generator=generator, device="cuda")
    padded = torch.zeros(rows, stride, dtype=torch.bfloat16, device="cuda")
    padded[:, :columns] = mean + deviation * values
    return padded.view(torch.int16).cpu().numpy().view(np.uint16)
