"""PyTorch, where it is installed with CUDA."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from machine import ENVIRONMENT

SECONDS_PER_CASE = 180


def has_cuda_torch() -> bool:
    """Whether PyTorch can use a GPU here. It is only imported where there is a driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    if importlib.util.find_spec("torch") is None:
        return False
    os.environ.update(ENVIRONMENT)
    import torch

    return torch.cuda.is_available()


def torch_steps(cases: list[tuple[int, int]]) -> tuple[list[float], str]:
    """Microseconds of a step in PyTorch for each (batch, context), and why the last ones are missing."""
    if importlib.util.find_spec("torch") is None:
        return [], "it is not installed"
    script = Path(__file__).resolve().parent / "torch_decode.py"
    command = [sys.executable, str(script), *(f"{batch}x{context}" for batch, context in cases)]
    limit = SECONDS_PER_CASE * len(cases)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=os.environ | ENVIRONMENT, check=False
        )
        output, reason = done.stdout, (done.stderr.strip().splitlines() or ["no figures"])[-1]
    except subprocess.TimeoutExpired as late:
        output, reason = (late.stdout or b"").decode(errors="replace"), f"it took more than {limit} s"
    steps = [json.loads(line)["step_us"] for line in output.splitlines() if line.startswith("{")]
    return steps, "" if len(steps) == len(cases) else reason
