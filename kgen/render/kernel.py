"""A kernel's plan as its templates and `kernel.json` have it: plain values under the key `kernel`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kgen.ir.kernel.overlap import Transfer
from kgen.plan.kernel.plan import CollectivePlan, KernelPlan, ProductPlan
from kgen.plan.kernel.runtime import Collective, Copies, Reduce

_DIGEST_BITS = 64


def make_kernel(plan: KernelPlan) -> dict[str, Any]:
    """What a template prints: the fields of the plan, with a digest that fits in a number of C++.

    world is the range of worlds. collective: null for a product; of a collective, what products have besides
    is none, so that a template can ask. communicates: ranks exchange something. in_network: the network adds.
    shares: ranks write to each other's output, so the library has `share`. partial: what summands of peers
    are made of. by_tma: pushers use bulk copies.
    """
    return {
        **(_product(plan) if isinstance(plan, ProductPlan) else _collective(plan)),
        **asdict(plan),
        "digest": int(plan.digest, 16) >> (256 - _DIGEST_BITS),
        "world": {"lo": plan.world.first, "hi": plan.world.last},
    }


def _product(plan: ProductPlan) -> dict[str, Any]:
    return {
        "kind": "_".join(["ag"] * plan.gather + ["gemm"] + _SUFFIX[plan.reduce]),
        "collective": None,
        "communicates": plan.gather or plan.reduce is not Reduce.NONE,
        "in_network": False,
        "shares": plan.reduce is Reduce.ALL,
        "partial": "float" if plan.deterministic else "element",
        "by_tma": plan.transfer is Transfer.TMA,
    }


def _collective(plan: KernelPlan) -> dict[str, Any]:
    assert isinstance(plan, CollectivePlan)
    return {
        "kind": _KINDS[plan.collective],
        "communicates": True,
        "in_network": plan.transfer is Transfer.MULTIMEM,
        "shares": plan.transfer is not Transfer.MULTIMEM,
        "partial": "element",
        "k": None,
        "gather": False,
        "keep_rows": False,
        "reduce": Reduce.NONE.value,
        "bias": False,
        "residual": False,
        "silu_mul": False,
        "copies": Copies.NEVER.value,
        "comm_sms": 0,
    }


_SUFFIX = {Reduce.NONE: [], Reduce.SCATTER: ["rs"], Reduce.ALL: ["ar"]}
_KINDS = {  # as specs name the operators
    Collective.GATHER: "all_gather",
    Collective.SCATTER: "reduce_scatter",
    Collective.ALL_REDUCE: "all_reduce",
    Collective.TO_COLUMNS: "all_to_all",
    Collective.TO_ROWS: "all_to_all",
}
