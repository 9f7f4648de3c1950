"""A timeline as a trace for Perfetto (ui.perfetto.dev): the JSON format of Chrome."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kgen.report.timeline import NONE, Activity, Record, role_of
from kgen.report.traced_plan import TracedPlan

_STEPS, _WORKERS = 0, 1  # processes of the trace
_TRACKS = 1000  # more than any worker has
_FIRST_CONSUMER = 3


def trace_lines(records: Sequence[Record], plan: TracedPlan, ends: Sequence[int]) -> Iterator[str]:
    """The file, a line an event. ends: of the steps, from the first on.

    Every span is named after its task, a wait after who triggers what.
    """
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    comma = ""
    for event in _events(records, plan, ends):
        yield comma + json.dumps(event, separators=(",", ":"))
        comma = ",\n"
    yield "\n]}\n"


def _events(records: Sequence[Record], plan: TracedPlan, ends: Sequence[int]) -> Iterator[dict[str, Any]]:
    yield from _names(plan, {(r.worker, r.track) for r in records})
    yield from _steps(ends)
    yield from (_span(r, plan) for r in records)


def _names(plan: TracedPlan, tracks: Iterable[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    yield _meta("process_name", _STEPS, 0, name=f"{plan.name}: steps")
    yield _meta("process_name", _WORKERS, 0, name=f"{plan.name}: workers")
    for worker, track in sorted(tracks):
        role = role_of(track)
        number = f" {track - _FIRST_CONSUMER}" if track >= _FIRST_CONSUMER else ""
        name = f"worker {worker}" if track == 0 else f"worker {worker} {role}{number}"
        thread = worker * _TRACKS + track
        yield _meta("thread_name", _WORKERS, thread, name=name)
        yield _meta("thread_sort_index", _WORKERS, thread, sort_index=thread)


def _meta(kind: str, process: int, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}


def _steps(ends: Sequence[int]) -> Iterator[dict[str, Any]]:
    for step, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        yield _complete(f"step {step}", "step", begin, end, _STEPS, 0)


def _span(record: Record, plan: TracedPlan) -> dict[str, Any]:
    activity = Activity(record.activity)
    name = activity.title if record.task == NONE else plan.task_name(record.task)
    if activity is Activity.WAIT_EVENT:
        name = f"wait: {plan.edge_name(record.event)}"
    elif activity is not Activity.TASK and record.task != NONE:
        name = f"{activity.title}: {name}"
    args: dict[str, Any] = {"step": record.step}
    for key, value, absent in (
        ("task", record.task, NONE),
        ("event", record.event, NONE),
        ("bytes", record.bytes, 0),
    ):
        if value != absent:
            args[key] = value
    thread = record.worker * _TRACKS + record.track
    return _complete(name, activity.title, record.begin, record.end, _WORKERS, thread) | {"args": args}


def _complete(name: str, category: str, begin: int, end: int, process: int, thread: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "ts": begin / 1e3,  # microseconds
        "dur": (end - begin) / 1e3,
        "pid": process,
        "tid": thread,
    }
