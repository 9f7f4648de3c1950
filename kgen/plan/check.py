"""What the tables of a plan must agree about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kgen.ir.graph import Worker
from kgen.ir.problem import Problem
from kgen.plan.decoder import find_decoder, too_few_sms
from kgen.plan.plan import START_EVENT, Plan

MAX_COUNTER = 2**32 - 1  # of an event, which only grows within a call


def check_plan(plan: Plan) -> list[str]:
    """Everything that does not fit together in a plan, as sentences; nothing when it can be run."""
    return [*_check_tasks(plan), *_check_counters(plan), *_check_tensors(plan), *_check_worker(plan)]


def _check_counters(plan: Plan) -> Iterator[Problem]:
    # A call reads at most a context of tokens of a sequence, at least one in each step.
    most, event = max((event.threshold, -e) for e, event in enumerate(plan.events))
    context = plan.runtime.context
    if most * context > MAX_COUNTER:
        yield Problem(
            f"the context of {context} is too long for a counter: event {-event} may be triggered "
            f"{most * context} times in a call, but its counter ends at {MAX_COUNTER}; "
            f"a context of {MAX_COUNTER // most} fits",
            setting="context",
        )


def _check_tasks(plan: Plan) -> Iterator[str]:
    tasks = plan.tasks()
    triggers = Counter(task.trigger for task in tasks)
    for e, event in enumerate(plan.events):
        if event.threshold != triggers[e]:
            yield f"event {e} opens after {event.threshold} triggers but {triggers[e]} tasks trigger it"
        if any(task.wait != e for task in tasks[event.first : event.first + event.count]):
            yield f"event {e} releases a task that waits for another event"
    if sum(event.count for event in plan.events) != len(tasks):
        yield f"{len(tasks)} tasks are not what {len(plan.events)} events release"
    if triggers[START_EVENT] != 1:
        yield f"{triggers[START_EVENT]} tasks start a step, not 1"
    for i, task in enumerate(tasks):
        if not 0 <= task.op < len(plan.ops) or not 0 <= task.trigger < len(plan.events):
            yield f"task {i} names an operator or event that is not there"
        if not task.jit and not 0 <= task.slot < plan.runtime.workers:
            yield f"task {i} is in slot {task.slot} of {plan.runtime.workers}"
    queued = sum(task.jit for task in tasks)
    if plan.queue_capacity < queued or plan.queue_capacity & (plan.queue_capacity - 1):
        yield f"a queue of {plan.queue_capacity} does not fit {queued} tasks"


def _check_worker(plan: Plan) -> Iterator[Problem]:
    if plan.runtime.worker is not Worker.CLUSTER:
        return
    found, sms = find_decoder(plan), too_few_sms(plan.runtime.workers)
    reasons = [*(found if isinstance(found, list) else []), *([sms] if sms else [])]
    if reasons:
        yield Problem(
            f"runtime.worker: the cluster worker cannot run this model: {'; '.join(reasons)}",
            setting="worker",
        )


def _check_tensors(plan: Plan) -> Iterator[str]:
    sizes = {"weight": plan.weight_bytes, "activation": plan.arena_bytes}
    end = dict.fromkeys(sizes, 0)
    for t in sorted(plan.tensors, key=lambda t: t.offset):
        if t.space.value not in sizes:
            continue
        if t.offset < end[t.space] or t.offset % 256:
            yield f"tensor {t.name} lies at byte {t.offset}, inside another or not a multiple of 256"
        end[t.space] = t.offset + t.rows * t.stride * t.dtype.itemsize
    for space, size in sizes.items():
        if end[space] > size:
            yield f"tensors of {space} memory end at byte {end[space]} of {size}"
    for op in plan.ops:
        slots = plan.variants[op.variant].operands
        if len(op.operands) != len(slots) or not all(0 <= i < len(plan.tensors) for i in op.operands):
            yield f"operator {op.name} names {len(op.operands)} tensors for slots {', '.join(slots)}"
