"""What every operator family of a kernel says about itself. One file per family implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kgen.ir.kernel.arithmetic import Arithmetic, Ranks
from kgen.ir.kernel.dims import Dims
from kgen.ir.kernel.tensor import TensorType

Types = Mapping[str, TensorType]


class Mismatch(NamedTuple):
    """An operand that the operator cannot take. `slot` is the operator's field that names it."""

    slot: str
    message: str
    expected: str = ""


class Cost(NamedTuple):
    """What an operator takes of one rank when nothing is fused.

    memory_bytes: read and written in the rank's own memory. link_bytes: sent to peers.
    """

    flops: int
    memory_bytes: int
    link_bytes: int

    def plus(self, other: Cost) -> Cost:
        """Both, one after the other."""
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class Sizes:
    """A call: the values of the dims that are ranges, and the number of ranks."""

    dims: Dims
    values: Mapping[str, int]
    world: int

    def shape(self, type_: TensorType) -> tuple[int, ...]:
        """The shape of the largest part that a rank has."""
        return type_.local_shape(self.dims, self.values, self.world)

    def bytes(self, type_: TensorType) -> int:
        """Bytes of the largest part that a rank has."""
        return type_.local_bytes(self.dims, self.values, self.world)


@dataclass(frozen=True)
class KernelOperator(ABC):
    """One operator over named tensors. Subclasses add fields that name tensors and hold parameters."""

    name: str
    out: str

    kind: ClassVar[str] = ""
    communicates: ClassVar[bool] = True

    @property
    @abstractmethod
    def reads(self) -> dict[str, str]:
        """The tensors it reads, by the field that names them."""

    @abstractmethod
    def infer(self, types: Types, dims: Dims) -> tuple[TensorType | None, list[Mismatch]]:
        """The type of `out`, and what is wrong with the operands.

        `types` has the operands; if it has `out`, that type was asked for, and says whether it is partial.
        """

    @abstractmethod
    def evaluate(self, operands: Sequence[Ranks], types: Types, arithmetic: Arithmetic) -> Ranks:
        """What every rank's `out` is, from every rank's operands in the order of `reads`."""

    @abstractmethod
    def cost(self, types: Types, sizes: Sizes) -> Cost:
        """What it takes of one rank in a call."""

    def _cannot_take(self, slot: str, types: Types, expected: str) -> Mismatch:
        name = self.reads[slot]
        return Mismatch(slot, f"{self.kind}: '{name}' is {types[name]}", expected)
