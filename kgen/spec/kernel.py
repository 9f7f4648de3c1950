"""The structure of a kernel's spec, as pydantic models. The frontend checks what the names in it mean."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from kgen.spec.fields import GIVEN, Flag, ModelName, Name, describe, fault
from kgen.spec.kernel_fields import AxisNumber, AxisSize, Extent, OptionalTile, OptionalWhole, World
from kgen.spec.kernel_ops import KernelGraphItem
from kgen.spec.ops import Node
from kgen.spec.placed import PlacedSpec, kind_is


class ShardSpec(Node):
    """Which axis is cut into one block for each rank."""

    axis: AxisNumber


class KernelTensorSpec(Node):
    """A tensor; with `shard` or `partial`, what all ranks hold together.

    Without either, every rank has a tensor of this shape, its own or the same everywhere.
    """

    shape: Annotated[list[AxisSize], Field(min_length=1, max_length=2)]
    dtype: Literal["bf16", "f16"]
    shard: Annotated[ShardSpec | None, GIVEN] = Field(
        default=None, description="The axis that is cut into one block for each rank."
    )
    partial: Flag = Field(
        default=False, description="Whether each rank holds a summand, and the sum is what is meant."
    )


class OverlapSpec(Node):
    """How communication is hidden; what is left out is chosen."""

    schedule: Literal["intra_sm", "inter_sm"] | None = Field(
        default=None, description="Whether the SMs that compute also communicate, or SMs of their own do."
    )
    comm_sms: OptionalWhole = Field(default=None, description="SMs that communicate and do not compute.")
    transfer: Literal["tma", "register", "copy_engine", "multimem"] | None = Field(
        default=None,
        description="What moves the bytes; multimem (NVLink multicast) is used only when named here.",
    )
    tile: OptionalTile = Field(
        default=None,
        description="[m, n, k]: what a task of the matmul computes, and how much of K at a time.",
    )
    stages: OptionalWhole = Field(
        default=None, description="Pieces of K in flight from memory to the tensor cores."
    )


def _overlap(value: object) -> object:
    if value == "auto":
        return {}
    if not isinstance(value, dict | OverlapSpec):
        raise fault(f"this is {describe(value)}", expected="auto, or a mapping such as {comm_sms: 8}")
    return value


class KernelSpec(PlacedSpec):
    """A spec of a kernel: a few operators over tensors that are spread over ranks."""

    kind: Annotated[str, *kind_is("kernel")] = Field(examples=["kernel"])
    name: ModelName = Field(examples=["my_kernel"])
    world: World = Field(examples=["2..8"], description="Ranks that are accepted at run time.")
    dims: dict[Name, Extent] = Field(
        default_factory=dict, description="Sizes: a range is decided at run time, a number is compiled in."
    )
    tensors: Annotated[dict[Name, KernelTensorSpec], Field(min_length=1)]
    graph: Annotated[list[KernelGraphItem], Field(min_length=1)]
    outputs: Annotated[list[Name], Field(min_length=1)] = Field(examples=[["c"]])
    deterministic: Flag = Field(
        default=True,
        description="Whether summands are added in a fixed order, those of a product as f32; false allows "
        "summands of the tensor's dtype, added in any order.",
    )
    overlap: Annotated[OverlapSpec, BeforeValidator(_overlap)] = Field(default=OverlapSpec())
