"""A kernel's plan as its templates and `kernel.json` have it: plain values under the key `kernel`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kgen.plan.kernel.plan import KernelPlan

_DIGEST_BITS = 64


def make_kernel(plan: KernelPlan) -> dict[str, Any]:
    """What a template prints: the fields of the plan, with a digest that fits in a number of C++.

    world is the range of worlds, partial what summands of peers are made of.
    """
    return {
        **asdict(plan),
        "kind": "_".join(["ag"] * plan.gather + ["gemm"] + _SUFFIX[plan.reduce]),
        "digest": int(plan.digest, 16) >> (256 - _DIGEST_BITS),
        "world": {"lo": plan.world.first, "hi": plan.world.last},
        "partial": "float" if plan.deterministic else "element",
    }


_SUFFIX = {"none": [], "scatter": ["rs"], "all": ["ar"]}
