"""Prompts for tests."""

from __future__ import annotations

from typing import Any

import numpy as np


def random_prompt(spec: dict[str, Any], length: int, seed: int = 0) -> list[int]:
    """`length` tokens of the vocabulary."""
    rng = np.random.default_rng([seed, length])
    return rng.integers(0, spec["vocab"], length).tolist()


def interesting_lengths(spec: dict[str, Any], room: int) -> list[int]:
    """Prompt lengths around the edges of chunks and pages, and the longest that leaves `room` new tokens."""
    runtime = spec["runtime"]
    longest = runtime["context"] + 1 - room
    edges = {1, 2, longest}
    for unit in (runtime["rows"], runtime["kv_page"]):
        edges |= {unit - 1, unit, unit + 1, 2 * unit, 2 * unit + 1}
    # Longer ones would only repeat what the others show, at the price of a slow reference.
    limit = min(longest, 600)
    return sorted(length for length in edges if 1 <= length <= limit)
