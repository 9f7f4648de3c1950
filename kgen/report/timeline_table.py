"""The figures of a timeline as tables."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from kgen.report.timeline import TimelineReport

_EDGES = 15  # the slowest


def to_table(report: TimelineReport) -> RenderableType:
    """Where the time of the step goes, what its operators achieve, and which waits are the longest."""
    return Group(*_headline(report), _time(report), _operators(report), _edges(report))


def _headline(report: TimelineReport) -> tuple[str, ...]:
    least, most = min(report.steps), max(report.steps)
    return (
        f"{report.name}, {report.workers} workers; "
        f"of {len(report.steps)} steps the median one, step {report.step}:",
        f"{_us(report.step_ns)} us (all steps: {_us(least)} to {_us(most)}), "
        f"{report.bytes / 1e6:,.2f} MB, {_gb(report.bytes_per_second)} GB/s",
    )


def _time(report: TimelineReport) -> Table:
    table = _table("the step", ("role", "activity"), ("us, mean of workers", "% of the step"))
    for row in report.shares:
        table.add_row(row.role, row.activity, _us(row.ns), f"{100 * row.share:.1f}")
    return table


def _operators(report: TimelineReport) -> Table:
    table = _table(
        "operators, the time of all workers together, the rate while they work on it",
        ("operator",),
        ("operators", "tasks", "us", "% of the step", "us a task", "MB", "GB/s"),
    )
    for row in report.operators:
        table.add_row(
            row.label,
            f"{row.operators:,}",
            f"{row.tasks:,}",
            _us(row.busy_ns),
            f"{100 * row.share:.1f}",
            _us(row.busy_ns / row.tasks),
            f"{row.bytes / 1e6:,.2f}" if row.bytes else "-",
            _gb(row.bytes_per_second) if row.bytes else "-",
        )
    return table


def _edges(report: TimelineReport) -> Table:
    table = _table(
        "slowest edges, the time of all workers together; signal: from the last task's end",
        ("after", "waits"),
        ("events", "waits", "us", "mean", "longest", "signal"),
    )
    for row in report.edges[:_EDGES]:
        signal = "-" if row.signal_ns is None else _us(row.signal_ns)
        counts = (f"{row.events:,}", f"{row.waits:,}")
        times = (_us(row.total_ns), _us(row.mean_ns), _us(row.longest_ns), signal)
        table.add_row(row.after, row.waiter, *counts, *times)
    return table


def _table(title: str, texts: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in texts:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def _us(ns: float) -> str:
    return f"{ns / 1e3:,.1f}" if ns < 1e7 else f"{ns / 1e3:,.0f}"


def _gb(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:,.1f}"
