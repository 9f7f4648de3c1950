"""The IR operator that each operator of a kernel's spec becomes, and where its operands are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgen.ir.kernel.all_gather import AllGather
from kgen.ir.kernel.all_reduce import AllReduce
from kgen.ir.kernel.all_to_all import AllToAll
from kgen.ir.kernel.matmul import Matmul
from kgen.ir.kernel.operator import KernelOperator
from kgen.ir.kernel.reduce_scatter import ReduceScatter
from kgen.spec import kernel_ops as ops
from kgen.spec.document import At
from kgen.spec.ops import Node


def _matmul(name: str, op: ops.MatmulOp) -> Matmul:
    x, weight, *up = op.inputs
    return Matmul(name, op.out, x, weight, op.transpose, up[0] if up else None, op.bias, op.residual)


RULES: dict[type[Node], Callable[[str, Any], KernelOperator]] = {
    ops.AllGatherOp: lambda name, op: AllGather(name, op.out, op.inputs, op.axis),
    ops.ReduceScatterOp: lambda name, op: ReduceScatter(name, op.out, op.inputs, op.axis),
    ops.AllReduceOp: lambda name, op: AllReduce(name, op.out, op.inputs),
    ops.AllToAllOp: lambda name, op: AllToAll(name, op.out, op.inputs, op.split, op.concat),
    ops.MatmulOp: _matmul,
}


def key_of(op: KernelOperator, slot: str) -> At:
    """Where the operand that a field of the IR operator names is written, inside the operator of the spec."""
    if isinstance(op, Matmul):
        places = {"x": 0, "weight": 1, "up": 2}
        return ("in", places[slot]) if slot in places else (slot,)
    return ("in",) if slot == "x" else (slot,)
