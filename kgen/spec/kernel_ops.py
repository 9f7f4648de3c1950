"""The operators of kernel specs, as they are written. `kgen.ir.kernel` says what they compute."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kgen.spec.fields import Name, OptionalName
from kgen.spec.kernel_fields import AxisNumber, Transpose
from kgen.spec.ops import Node


class AllGatherOp(Node):
    """Every rank gets the blocks of all ranks; `in` is sharded on `axis`."""

    op: Literal["all_gather"]
    inputs: Annotated[Name, Field(alias="in")]
    axis: AxisNumber = 0
    out: Name


class ReduceScatterOp(Node):
    """Every rank gets its block of the sum over the ranks; `in` is partial, `out` is sharded on `axis`."""

    op: Literal["reduce_scatter"]
    inputs: Annotated[Name, Field(alias="in")]
    axis: AxisNumber = 0
    out: Name


class AllReduceOp(Node):
    """Every rank gets the sum over the ranks; `in` is partial."""

    op: Literal["all_reduce"]
    inputs: Annotated[Name, Field(alias="in")]
    out: Name


class AllToAllOp(Node):
    """Each rank cuts its part of `in` on axis `split` and joins what it gets on axis `concat`.

    `in` is sharded on `concat`, `out` on `split`.
    """

    op: Literal["all_to_all"]
    inputs: Annotated[Name, Field(alias="in")]
    split: AxisNumber
    concat: AxisNumber
    out: Name


class MatmulOp(Node):
    """out = a b (+ bias) (+ residual); with `activation: silu_mul`, silu(x gate) * (x up) (+ residual).

    `transpose` says which of the first operand and of the weights are stored as the transpose. When both
    operands are sharded on the axis that is summed over, or `out` is declared with `partial: true`, `out` is
    partial: then bias and residual are added once, to the sum over the ranks. The residual lies like that sum
    (before a reduce_scatter sharded, before an all_reduce whole); what ranks have whole is the same on all.
    """

    op: Literal["matmul"]
    inputs: list[Name] = Field(
        alias="in",
        min_length=2,
        max_length=3,
        description="[a, b], or [x, gate, up] with activation: silu_mul",
    )
    transpose: Transpose = (False, False)
    bias: OptionalName = None
    residual: OptionalName = None
    activation: Literal["silu_mul"] | None = None
    out: Name


KernelOpSpec = AllGatherOp | ReduceScatterOp | AllReduceOp | AllToAllOp | MatmulOp
KERNEL_OPERATORS: dict[str, type[Node]] = {
    str(model.model_fields["op"].annotation.__args__[0]): model for model in KernelOpSpec.__args__
}
KernelGraphItem = Annotated[KernelOpSpec, Field(discriminator="op")]
