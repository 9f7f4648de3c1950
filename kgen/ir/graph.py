"""The operator graph: what the frontend makes of a spec and what the passes start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from kgen.ir.operator import Operator
from kgen.ir.tensor import Tensor


class Worker(StrEnum):
    """Which of the two workers runs a model on a Hopper GPU; `auto` is the cluster worker where it can."""

    AUTO = "auto"
    CLUSTER = "cluster"
    GENERAL = "general"


class AttentionDeal(StrEnum):
    """How a step's attention is dealt to SMs: by position in the batch, or by lengths at run time."""

    AUTO = "auto"
    AOT = "aot"
    JIT = "jit"


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a generated library accepts at run time, and how it runs.

    batch: sequences decoded at once, at most (1..batch at run time).
    context: tokens of one sequence, prompt and output together, at most.
    kv_page: tokens of one page of the KV cache.
    rows: token rows one step can carry; a prompt is read in chunks of up to this many. rows >= batch.
    workers: SM slots that ahead-of-time tasks are spread over; fewer SMs share the slots among them.
    worker, attention: see above; attention matters to the cluster worker only, whose `auto` is `jit`.
    pipelining: whether the loader of the cluster worker runs ahead of the task that its SM works on.
    """

    batch: int
    context: int
    kv_page: int
    rows: int
    workers: int
    worker: Worker = Worker.AUTO
    pipelining: bool = True
    attention: AttentionDeal = AttentionDeal.AUTO


@dataclass(frozen=True)
class Graph:
    """Operators in program order over named buffers. A buffer may be written again later."""

    name: str
    runtime: Runtime
    dims: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    ops: tuple[Operator, ...]

    @cached_property
    def by_name(self) -> dict[str, Tensor]:
        """Tensors by name."""
        return {t.name: t for t in self.tensors}
