"""Where the time of a decoding step goes: figures of one step out of what the workers recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from kgen.plan.plan import START_EVENT
from kgen.report.traced_plan import NEXT_STEP, TracedPlan

NONE = 0xFFFFFFFF  # no task, no event, no step
OTHER = "other"  # between two records
_ROLES = ("worker", "loader", "storer", "consumer")  # by track; from the last on all are consumers


class Activity(IntEnum):
    """What a span of time was spent on, as in a project's C header."""

    TASK = 0
    WAIT_EVENT = 1
    WAIT_PAGE = 2
    STREAM = 3
    COMPUTE = 4
    STORE = 5
    TRIGGER = 6

    @property
    def title(self) -> str:
        """The name in tables and traces."""
        return _TITLES[self]


_TITLES = {
    Activity.TASK: "task",
    Activity.WAIT_EVENT: "wait on event",
    Activity.WAIT_PAGE: "wait on page",
    Activity.STREAM: "stream",
    Activity.COMPUTE: "compute",
    Activity.STORE: "store",
    Activity.TRIGGER: "trigger",
}
_WAITS = (Activity.WAIT_EVENT, Activity.WAIT_PAGE)
_NOT_WORK = (*_WAITS, Activity.TRIGGER)


class Record(NamedTuple):
    """A span of a track of a worker, as a library gives it; times in ns from the start of the call."""

    begin: int
    end: int
    bytes: int
    worker: int
    track: int
    activity: int
    step: int
    task: int
    event: int


@dataclass(frozen=True)
class Share:
    """Time that a track of a role spent on an activity, of the average worker; of its own, not within it."""

    role: str
    activity: str
    ns: float
    share: float  # of the step


@dataclass(frozen=True)
class OperatorTime:
    """The operators of one label: busy_ns is the sum over workers, bytes_per_second that of all together."""

    label: str
    operators: int
    tasks: int
    busy_ns: int
    share: float  # of the workers' time in the step
    bytes: int
    bytes_per_second: float  # 0 where no bytes are known


@dataclass(frozen=True)
class EdgeTime:
    """Waits of one label's tasks for the tasks of another.

    signal_ns: from the end of the last task waited for until the waiter goes on, the mean over the waits that
    it ended; None where there is none.
    """

    after: str
    waiter: str
    events: int
    waits: int
    total_ns: int
    mean_ns: float
    longest_ns: int
    signal_ns: float | None


@dataclass(frozen=True)
class TimelineReport:
    """One step, that of the median time among those recorded whole, and the times of all those."""

    name: str
    workers: int
    records: int
    dropped: int
    steps: tuple[int, ...]  # ns
    step: int  # the one that the rest is about
    shares: tuple[Share, ...]
    operators: tuple[OperatorTime, ...]
    edges: tuple[EdgeTime, ...]  # the longest total time first

    @property
    def step_ns(self) -> int:
        """Time of the step."""
        return self.steps[self.step]

    @property
    def bytes(self) -> int:
        """Bytes that the step moved, as far as they are known."""
        return sum(row.bytes for row in self.operators)

    @property
    def bytes_per_second(self) -> float:
        """Of the whole step."""
        return self.bytes / self.step_ns * 1e9

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "workers": self.workers,
            "records": self.records,
            "dropped": self.dropped,
            "steps_ns": list(self.steps),
            "step": self.step,
            "step_ns": self.step_ns,
            "bytes": self.bytes,
            "bytes_per_second": self.bytes_per_second,
            "time": [asdict(row) for row in self.shares],
            "operators": [asdict(row) for row in self.operators],
            "edges": [asdict(row) for row in self.edges],
        }


def summarize(
    records: Sequence[Record], plan: TracedPlan, ends: Sequence[int], *, workers: int, kept: int, dropped: int
) -> TimelineReport:
    """The figures of the median step: `records` has all that concerns it, `ends` are those of all steps."""
    begins = [0, *ends[:-1]]
    step = median_step(ends)
    return TimelineReport(
        name=plan.name,
        workers=workers,
        records=kept,
        dropped=dropped,
        steps=tuple(end - begin for begin, end in zip(begins, ends, strict=True)),
        step=step,
        shares=tuple(time_shares(records, begins[step], ends[step])),
        operators=tuple(operator_times(records, plan, step, (ends[step] - begins[step]) * workers)),
        edges=tuple(edge_times(records, plan, step)),
    )


def median_step(ends: Sequence[int]) -> int:
    """The step of the median time, the shorter one of two."""
    times = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    return sorted(range(len(times)), key=lambda step: times[step])[(len(times) - 1) // 2]


def step_ends(records: Iterable[Record], plan: TracedPlan, first_cut_step: int = NONE) -> list[int]:
    """When each step ended whose records are all there: the step's last task has opened the next."""
    last, found = plan.last_tasks(), dict[int, int]()
    for r in records:
        if r.task in last and r.activity not in _WAITS and r.step < first_cut_step:
            found[r.step] = max(found.get(r.step, 0), r.end)
    ends: list[int] = []
    while len(ends) in found:
        ends.append(found[len(ends)])
    return ends


def time_shares(records: Iterable[Record], begin: int, end: int) -> Iterator[Share]:
    """What each role did in [begin, end), averaged over its tracks."""
    tracks: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for r in records:
        tracks[r.worker, r.track].append(r)
    roles: dict[str, list[dict[int, int]]] = defaultdict(list)
    for (_, track), spans in sorted(tracks.items(), key=lambda item: item[0][::-1]):
        roles[role_of(track)].append(own_times(spans, begin, end))
    for role, times in roles.items():
        rest = float(end - begin)
        for activity in Activity:
            ns = sum(time.get(activity, 0) for time in times) / len(times)
            rest -= ns
            if ns:
                yield Share(role, activity.title, ns, ns / (end - begin))
        yield Share(role, OTHER, rest, rest / (end - begin))


def own_times(spans: Iterable[Record], begin: int, end: int) -> dict[int, int]:
    """Activity -> ns in [begin, end) of one track; what lies inside a span is not counted for that span."""
    clipped = ((max(r.begin, begin), min(r.end, end), r.activity) for r in spans)
    inside = sorted((a, -b, activity) for a, b, activity in clipped if a < b)
    times: dict[int, int] = defaultdict(int)
    open_spans: list[tuple[int, int]] = []
    for a, minus_b, activity in inside:
        while open_spans and open_spans[-1][0] <= a:
            open_spans.pop()
        if open_spans:
            times[open_spans[-1][1]] -= -minus_b - a
        times[activity] += -minus_b - a
        open_spans.append((-minus_b, activity))
    return times


def operator_times(
    records: Iterable[Record], plan: TracedPlan, step: int, all_ns: int
) -> Iterator[OperatorTime]:
    """The work of a step by label, in the order of the plan. all_ns: of all workers together."""
    workers: set[int] = set()
    spans: dict[str, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    tasks: dict[str, set[int]] = defaultdict(set)
    moved: dict[str, int] = defaultdict(int)
    for r in records:
        workers.add(r.worker)
        if r.step != step or r.task == NONE or r.activity in _NOT_WORK:
            continue
        label = plan.label(plan.tasks[r.task].op)
        spans[label][r.worker].append((r.begin, r.end))
        tasks[label].add(r.task)
        moved[label] += r.bytes
    for label in sorted(tasks, key=lambda name: min(tasks[name])):
        busy = sum(covered(of_worker) for of_worker in spans[label].values())
        known = moved[label] or sum(plan.task_bytes(task) for task in tasks[label])
        yield OperatorTime(
            label=label,
            operators=len({plan.tasks[task].op for task in tasks[label]}),
            tasks=len(tasks[label]),
            busy_ns=busy,
            share=busy / all_ns,
            bytes=known,
            bytes_per_second=known / busy * len(workers) * 1e9 if busy else 0.0,
        )


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """The length of the union of some spans."""
    total, reached = 0, 0
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def edge_times(records: Iterable[Record], plan: TracedPlan, step: int) -> Iterator[EdgeTime]:
    """The waits on events of a step; those for its start are waits for the end of the step before."""
    waits: dict[tuple[str, str], list[Record]] = defaultdict(list)
    done: dict[int, int] = defaultdict(int)  # event -> when the last task that triggers it was finished
    for r in records:
        if r.activity == Activity.WAIT_EVENT and r.step == step:
            waits[_labels(plan, plan.triggering.get(r.event, ())), _waiter(plan, r)].append(r)
        elif r.task != NONE and r.activity not in _NOT_WORK:
            event = plan.tasks[r.task].trigger
            if r.step == step - (event == START_EVENT):
                done[event] = max(done[event], r.end)
    rows = []
    for (after, waiter), spans in waits.items():
        times = [r.end - r.begin for r in spans]
        signals = [r.end - done[r.event] for r in spans if r.begin < done[r.event] <= r.end]
        rows.append(
            EdgeTime(
                after=after,
                waiter=waiter,
                events=len({r.event for r in spans}),
                waits=len(spans),
                total_ns=sum(times),
                mean_ns=sum(times) / len(times),
                longest_ns=max(times),
                signal_ns=sum(signals) / len(signals) if signals else None,
            )
        )
    yield from sorted(rows, key=lambda row: (-row.total_ns, row.after, row.waiter))


def role_of(track: int) -> str:
    """The role of a track of a worker."""
    return _ROLES[min(track, len(_ROLES) - 1)]


def _labels(plan: TracedPlan, ops: Iterable[int]) -> str:
    return ", ".join(dict.fromkeys(plan.label(op) for op in ops))


def _waiter(plan: TracedPlan, record: Record) -> str:
    return NEXT_STEP if record.task == NONE else plan.label(plan.tasks[record.task].op)
