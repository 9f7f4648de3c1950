"""Does a checkpoint fit a project? Every disagreement is found before anything is written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from kgen.weights.checkpoint import Checkpoint, SourceTensor, WeightsError
from kgen.weights.layout import PackedTensor, PackLayout

_HEAD = "lm_head.weight"
_EMBEDDING = "model.embed_tokens.weight"
# Buffers that old versions of transformers saved; they are computed from the configuration.
_DERIVED = re.compile(r".*\.(rotary_emb\.inv_freq|self_attn\.(masked_)?bias)")
_SHOWN = 20
_CHUNK_ROWS = 4096


def check_checkpoint(checkpoint: Checkpoint, layout: PackLayout) -> tuple[str, ...]:
    """Names of checkpoint tensors that are left out because nothing is lost by it.

    Raises WeightsError with a line for every missing, extra or misshapen tensor and every differing setting.
    """
    wanted = {source for tensor in layout.tensors for source in tensor.sources}
    unused = [name for name in checkpoint.tensors if name not in wanted]
    ignored = [name for name in unused if _ignorable(name, checkpoint)]
    extra = [name for name in unused if name not in ignored]

    problems = _settings(checkpoint, layout)
    problems += [_missing(name, extra) for name in sorted(wanted - set(checkpoint.tensors))]
    problems += [
        f"extra: {name} {list(checkpoint.tensors[name].shape)}{_near(name, wanted - set(checkpoint.tensors))}"
        for name in extra
    ]
    for tensor in layout.tensors:
        problems += _misshapen(tensor, checkpoint)
    if problems:
        lines = problems[:_SHOWN]
        if len(problems) > _SHOWN:
            lines.append(f"and {len(problems) - _SHOWN} more")
        raise WeightsError("\n  ".join([f"{checkpoint.path} does not fit {layout.name}:", *lines]))
    return tuple(ignored)


def _missing(name: str, extra: list[str]) -> str:
    return f"missing: {name}{_near(name, extra)}"


def _near(name: str, names: list[str] | set[str]) -> str:
    close = get_close_matches(name, sorted(names), n=1, cutoff=0.8)
    return f" (nearest: {close[0]})" if close else ""


def _misshapen(tensor: PackedTensor, checkpoint: Checkpoint) -> list[str]:
    found = [(name, checkpoint.tensors[name].shape) for name in tensor.sources if name in checkpoint.tensors]
    if len(found) < len(tensor.sources):
        return []  # said already as missing
    tails = {shape[1:] for _, shape in found}
    total = sum(shape[0] if shape else 1 for _, shape in found)
    if tails == {tensor.shape[1:]} and total == tensor.shape[0]:
        return []
    stacked = " + ".join(f"{name} {list(shape)}" for name, shape in found)
    return [f"misshapen: {stacked}; {tensor.name} takes {list(tensor.shape)}"]


def _ignorable(name: str, checkpoint: Checkpoint) -> bool:
    if _DERIVED.fullmatch(name):
        return True
    # A tied model may store its embedding twice.
    embedding = checkpoint.tensors.get(_EMBEDDING)
    return name == _HEAD and embedding is not None and _equal(checkpoint.tensors[name], embedding)


def _equal(a: SourceTensor, b: SourceTensor) -> bool:
    return a.shape == b.shape and all(
        np.array_equal(a.read(i, min(i + _CHUNK_ROWS, a.rows)), b.read(i, min(i + _CHUNK_ROWS, a.rows)))
        for i in range(0, a.rows, _CHUNK_ROWS)
    )


def _settings(checkpoint: Checkpoint, layout: PackLayout) -> list[str]:
    problems = [
        f"setting: {key} is {value:g} in the file and {layout.settings[key]:g} in the project"
        for key, value in checkpoint.facts.items()
        if key in layout.settings and not math.isclose(value, layout.settings[key], rel_tol=1e-6)
    ]
    if checkpoint.rope_factors is not None and "rope_theta" in layout.settings:
        expected = rope_factors(layout.settings)
        got = checkpoint.rope_factors
        if got.shape != expected.shape or not np.allclose(got, expected, rtol=1e-3):
            problems.append("setting: rope_freqs.weight is not the RoPE scaling of the project")
    return problems


def rope_factors(settings: Mapping[str, float]) -> NDArray[np.float64]:
    """What divides each rotary frequency under Llama 3's scaling, [head / 2]; ones without scaling."""
    half = int(settings["head"]) // 2
    wavelength = 2 * math.pi * settings["rope_theta"] ** (np.arange(half) / half)
    factor, context = settings["rope_factor"], settings["rope_original_context"]
    low, high = settings["rope_low_freq"], settings["rope_high_freq"]
    if factor == 1:
        return np.ones(half)
    smooth = np.clip((context / wavelength - low) / (high - low), 0, 1)
    factors: NDArray[np.float64] = 1 / ((1 - smooth) / factor + smooth)
    return factors
