"""The reference of the bench, in PyTorch, says what the one in NumPy says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from project import PROJECT
from prompts import random_prompt
from reference import Reference

torch = pytest.importorskip("torch")
sys.path.append(str(PROJECT / "bench"))


@pytest.mark.parametrize("length", [1, 21])
def test_logits(spec: dict[str, Any], weights: Path, exact: Reference, length: int) -> None:
    from torch_reference import TorchReference

    prompt = random_prompt(spec, length)
    logits = TorchReference(spec, weights, "cpu").last_logits(prompt, torch.float32)
    expected = exact.logits(prompt)[-1]
    assert np.linalg.norm(logits - expected) < 1e-5 * np.linalg.norm(expected)
