"""Run a plan on NumPy: the oracle for what a generated project computes and for what its events order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kgen.ir import machine as m
from kgen.ir.machine import NUMPY_DTYPE, Array, Request
from kgen.ir.operator import Context
from kgen.ir.tensor import DType, Space
from kgen.plan.plan import START_EVENT, Plan, TaskRow
from kgen.plan.task_templates import TEMPLATES

POISON = np.iinfo(np.int32).min  # of integers; floats get NaN


class InterpError(Exception):
    """A request that does not fit the plan, or a plan whose events let a task run too early or never."""


@dataclass(frozen=True)
class Result:
    """Tokens and log-probabilities of each sequence, and the logits f32 [batch, vocab] of its last step."""

    sequences: tuple[m.Sequence, ...]
    logits: Array


class Interpreter:
    """A plan with weights, ready to decode.

    weights: by tensor name, of the tensor's shape; they are rounded to its dtype.
    """

    def __init__(self, plan: Plan, weights: Mapping[str, Array]) -> None:
        self.plan = plan
        self.tasks = plan.tasks()
        self.tensors: list[Array] = []
        for t in plan.tensors:
            if t.space is Space.WEIGHT:
                array = np.asarray(weights[t.name]).astype(NUMPY_DTYPE[t.dtype])
                if array.shape != t.shape:
                    raise InterpError(f"weight {t.name} must be {list(t.shape)}, not {list(array.shape)}")
            else:
                array = np.empty(t.shape, dtype=NUMPY_DTYPE[t.dtype])
            self.tensors.append(array)

    def generate(self, requests: Sequence[Request], rng: np.random.Generator) -> Result:
        """Decode until every sequence ends, in an order that `rng` draws from those that the events allow.

        Activations are poisoned before every step, so that what a task reads too early shows.
        """
        self._check(requests)
        machine = self._start(requests, rng)
        logits = np.full((self.plan.runtime.batch, self.plan.vocab), np.nan, dtype=np.float32)
        counters = [0] * len(self.plan.events)
        number = 0
        while any(s.finish is m.Finish.RUNNING for s in machine.sequences):
            samples = machine.step.sample_row >= 0
            self._step(machine, number, counters, rng)
            logits[samples] = self.tensors[self.plan.logits][samples]
            if np.isnan(logits[samples]).any():
                raise InterpError(f"step {number}: logits depend on what no task of the step had written yet")
            number += 1
        return Result(tuple(machine.sequences), logits)

    def _check(self, requests: Sequence[Request]) -> None:
        if not 1 <= len(requests) <= self.plan.runtime.batch:
            raise InterpError(f"there are {len(requests)} sequences, not 1 to {self.plan.runtime.batch}")
        for i, request in enumerate(requests):
            total = len(request.prompt) + request.max_new_tokens - 1
            if not request.prompt or request.max_new_tokens < 1 or total > self.plan.runtime.context:
                raise InterpError(
                    f"sequence {i} is empty or longer than the context of {self.plan.runtime.context}"
                )

    def _start(self, requests: Sequence[Request], rng: np.random.Generator) -> m.Machine:
        plan, runtime = self.plan, self.plan.runtime
        sequences = [m.Sequence(request) for request in requests]
        pages_each = -(-runtime.context // runtime.kv_page)
        pages = runtime.batch * pages_each
        shape = (plan.kv_layers, pages, 2, plan.kv_heads, runtime.kv_page, plan.head)
        kv = m.KvCache(
            np.full(shape, np.nan, dtype=NUMPY_DTYPE[DType.BF16]),
            rng.permutation(pages).reshape(runtime.batch, pages_each),
        )
        step = m.next_step(sequences, runtime.batch, runtime.rows)
        self.tensors[plan.tokens][: step.row_count] = step.tokens
        return m.Machine(runtime.rows, sequences, kv, step)

    def _step(self, machine: m.Machine, number: int, counters: list[int], rng: np.random.Generator) -> None:
        for i, tensor in enumerate(self.tensors):
            if self.plan.tensors[i].space is Space.ACTIVATION and i != self.plan.tokens:
                tensor[...] = POISON if tensor.dtype == np.int32 else np.nan
        ready = self._released(START_EVENT)
        done = 0
        while ready:
            pick = int(rng.integers(len(ready)))
            ready[pick], ready[-1] = ready[-1], ready[pick]
            task = ready.pop()
            self._run(task, machine)
            done += 1
            event = task.trigger
            if event < 0:
                continue
            counters[event] += 1
            if event == START_EVENT:
                break
            if counters[event] == self.plan.events[event].threshold * (number + 1):
                ready += self._released(event)
        if done < len(self.tasks):
            raise InterpError(
                f"step {number}: it ended, or could not go on, after {done} of {len(self.tasks)} tasks"
            )

    def _released(self, event: int) -> list[TaskRow]:
        row = self.plan.events[event]
        return self.tasks[row.first : row.first + row.count]

    def _run(self, task: TaskRow, machine: m.Machine) -> None:
        op = self.plan.ops[task.op]
        variant = self.plan.variants[op.variant]
        family = TEMPLATES[variant.kind].family
        if family is None:
            return
        operands = {
            slot: self.tensors[tensor] for slot, tensor in zip(variant.operands, op.operands, strict=True)
        }
        family.evaluate(
            Context(task.begin, task.end, task.index, op.layer, dict(variant.constants), operands, machine)
        )
