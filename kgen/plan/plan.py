"""The frozen tables that a template prints and that the interpreter runs.

A plan holds nothing that has to be computed again: templates loop over its rows and substitute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kgen.ir.graph import Runtime
from kgen.ir.tensor import DType, Space
from kgen.tgraph.tgraph import START_EVENT as START_EVENT


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor with its place. `offset` is in bytes from the start of its space, a multiple of 256."""

    name: str
    space: Space
    dtype: DType
    shape: tuple[int, ...]
    rows: int
    cols: int
    stride: int  # elements
    offset: int  # bytes
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """One instantiation of a task template: the constants compiled in and the operand slots.

    `operands[i]` names slot i of every OpRow of this variant; a slot that an operator does not use is absent
    from the tuple, and constants such as `has_bias` say so.
    """

    kind: str  # "linear", "attention", ...; "empty" for tasks that normalization added
    cpp_type: str  # "mpk::tasks::Linear"
    header: str  # "mpk/tasks/linear.hpp"
    constants: tuple[tuple[str, bool | int | float], ...]
    operands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpRow:
    """One operator of one layer. `operands` index `Plan.tensors` in the order of its variant's slots."""

    name: str
    variant: int
    layer: int  # layer of the KV cache for attention, -1 outside a repeat block
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task: operator `op` over the units [begin, end) of its main axis and unit `index` of its second.

    The axes are the operator's: output columns for linear, swiglu and logits; token rows for embedding,
    rmsnorm, add and silu_mul; the sequence (main) and the KV head (index) for attention; the sequence for
    sample. `wait` is the one event the task waits for, `trigger` the one it adds 1 to when done.
    """

    op: int
    jit: bool
    begin: int
    end: int
    index: int
    wait: int
    trigger: int
    slot: int  # worker slot of an AOT task; -1 for JIT


@dataclass(frozen=True, slots=True)
class TaskRun:
    """`count` consecutive tasks that differ by constant steps; task i of the run is

    begin = begin + i * step, end = min(begin + i * step + width, limit), index = index + i * index_step,
    slot = (slot + i) % workers (AOT). A generated project expands the runs when a model is created.
    """

    op: int
    jit: bool
    count: int
    begin: int
    step: int
    width: int
    limit: int
    index: int
    index_step: int
    wait: int
    trigger: int
    slot: int

    def expand(self, workers: int) -> Iterator[TaskRow]:
        """The tasks of this run, in order."""
        for i in range(self.count):
            begin = self.begin + i * self.step
            yield TaskRow(
                self.op,
                self.jit,
                begin,
                min(begin + self.width, self.limit),
                self.index + i * self.index_step,
                self.wait,
                self.trigger,
                -1 if self.jit else (self.slot + i) % workers,
            )


@dataclass(frozen=True, slots=True)
class EventRow:
    """`threshold` triggers per step open the tasks [first, first + count), in linear order.

    In step s (from 0) an event is open once its counter is >= threshold * (s + 1); START_EVENT, which the
    last task of the step before triggers, is open once its counter is >= threshold * s. Counters only grow
    within a call and are cleared before it.
    """

    threshold: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a generated project is made of."""

    name: str
    digest: str  # sha256 hex over name and weight tensors: which packed files fit
    runtime: Runtime
    dims: tuple[tuple[str, int], ...]
    tensors: tuple[TensorRow, ...]
    variants: tuple[Variant, ...]
    ops: tuple[OpRow, ...]
    runs: tuple[TaskRun, ...]
    events: tuple[EventRow, ...]
    queue_capacity: int  # slots of the JIT queue, a power of two >= JIT tasks of one step
    weight_bytes: int
    arena_bytes: int
    vocab: int
    kv_layers: int
    kv_heads: int
    head: int
    tokens: int  # index of the i32 [rows] tensor that embedding reads and advance writes
    sampled: int  # index of the i32 [batch] tensor that sample writes and advance reads
    logits: int  # index of the f32 [batch, vocab] tensor

    def tasks(self) -> list[TaskRow]:
        """All tasks in linear order."""
        return [t for run in self.runs for t in run.expand(self.runtime.workers)]
