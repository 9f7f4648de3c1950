"""What every operator family says about itself. One file per family implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kgen.ir.machine import Array, Machine
from kgen.ir.region import Access, Axis, Box, IntArray, Layout, Span, Tiles
from kgen.ir.tensor import DType

if TYPE_CHECKING:
    from kgen.ir.graph import Graph

Constant = bool | int | float


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that an operator uses, and what it must be. `slot` is the operator's field that names it."""

    slot: str
    tensor: str
    layout: Layout
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """What the body of a task sees at run time, on NumPy as in C++ (mpk::Context); operands are by slot."""

    begin: int
    end: int
    index: int
    layer: int
    constants: Mapping[str, Constant]
    operands: Mapping[str, Array]
    machine: Machine


@dataclass(frozen=True)
class Operator(ABC):
    """One operator over named buffers. Subclasses add fields that name tensors and hold parameters."""

    name: str
    layer: int  # iteration of the repeat block, -1 outside

    kind: ClassVar[str] = ""
    axis: ClassVar[Axis]  # what a task is a piece of
    output_slot: ClassVar[str] = "out"  # the only tensor it writes
    jit: ClassVar[bool] = False  # its tasks differ so much at run time that a free worker takes the next one

    @abstractmethod
    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Every tensor used, with the layout, dtype and shape it must have."""

    @abstractmethod
    def reads(self, tiles: Tiles, graph: Graph) -> Sequence[Access]:
        """What each task reads, weights left out."""

    @abstractmethod
    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """What each task writes."""

    @abstractmethod
    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """Bytes that each task brings from memory, int64 [tasks]; what all tasks share counts for none."""

    @staticmethod
    @abstractmethod
    def evaluate(ctx: Context) -> None:
        """What one task does."""

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """What a C++ instantiation of this operator has compiled in."""
        return {}

    def parts(self) -> int:
        """Length of the second axis of the task grid."""
        return 1

    def column_unit(self, tensor: str) -> int:
        """Tiles of the producer of an input should not straddle multiples of so many columns; 0: they may."""
        return 0

    @property
    def output(self) -> str:
        """The tensor it writes."""
        name: str = getattr(self, self.output_slot)
        return name

    def check(self, graph: Graph) -> list[str]:
        """What is wrong with the operands, as sentences."""
        problems = []
        for o in self.operands(graph):
            tensor = graph.by_name.get(o.tensor)
            if tensor is None:
                problems.append(f"{self.name}: there is no tensor `{o.tensor}` ({o.slot})")
            elif (tensor.shape, tensor.dtype) != (o.shape, o.dtype):
                problems.append(
                    f"{self.name}: {o.slot} `{o.tensor}` must be {o.dtype} {list(o.shape)}, "
                    f"not {tensor.dtype} {list(tensor.shape)}"
                )
        return problems


def token_rows(graph: Graph, tensor: str, rows: Span | None = None, columns: Span | None = None) -> Access:
    """Rows of a [rows, n] or [rows] tensor, whichever sequence they belong to; without bounds, all of it."""
    shape = graph.by_name[tensor].shape
    return Access(
        tensor,
        Box(
            Span(0, graph.runtime.batch),
            rows or Span(0, graph.runtime.rows),
            columns or Span(0, shape[1] if len(shape) > 1 else 1),
        ),
    )


def rows_of_sequences(graph: Graph, tensor: str, sequences: Span, columns: Span) -> Access:
    """The rows of a [rows, n] tensor that belong to these sequences, wherever they are."""
    return Access(tensor, Box(sequences, Span(0, graph.runtime.rows), columns))


def sequence_entries(
    graph: Graph, tensor: str, sequences: Span | None = None, columns: Span | None = None
) -> Access:
    """Entries of a [batch, n] or [batch] tensor; without bounds, all of it."""
    shape = graph.by_name[tensor].shape
    return Access(
        tensor,
        Box(
            sequences or Span(0, graph.runtime.batch),
            Span(0, 1),
            columns or Span(0, shape[1] if len(shape) > 1 else 1),
        ),
    )


def per_task(tiles: Tiles, bytes_per_unit: int) -> IntArray:
    """A cost proportional to the units of the main axis."""
    return (tiles.end - tiles.begin) * np.int64(bytes_per_unit)
