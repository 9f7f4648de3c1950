"""All that a library recorded of one call, and the parts of it that a report and a trace need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kgen.report.timeline import NONE, Record, TimelineReport, median_step, step_ends, summarize
from kgen.report.trace_events import trace_lines
from kgen.report.traced_plan import TracedPlan

Records = npt.NDArray[np.void]


class NoWholeStep(Exception):
    """The buffers were full before the first step ended, or nothing was recorded."""


@dataclass(frozen=True)
class Recording:
    """The records of a call, as many as there may be: NumPy picks those that Python then walks.

    array: the fields of Record under the names of the C header. Raises NoWholeStep when a figure is asked
    and no step is there as a whole.
    """

    array: Records
    plan: TracedPlan
    workers: int
    dropped: int = 0
    first_cut_step: int = NONE

    @cached_property
    def ends(self) -> list[int]:
        """When each step ended that was recorded as a whole, in ns."""
        last = np.isin(self.array["task"], list(self.plan.last_tasks()))
        ends = step_ends(_rows(self.array[last]), self.plan, self.first_cut_step)
        if not ends:
            raise NoWholeStep
        return ends

    def report(self) -> TimelineReport:
        """The figures of the median step."""
        step = median_step(self.ends)
        concerned = self._in_steps(step, step + 1) | np.isin(self.array["step"], (step - 1, step))
        return summarize(
            _rows(self.array[concerned]),
            self.plan,
            self.ends,
            workers=self.workers,
            kept=len(self.array),
            dropped=self.dropped,
        )

    def trace(self, steps: int) -> Iterator[str]:
        """The lines of a trace of so many steps around the median one; 0: of everything."""
        if steps == 0:
            return trace_lines(_rows(self.array), self.plan, self.ends)
        first = max(0, min(median_step(self.ends) - steps // 2, len(self.ends) - steps))
        last = min(first + steps, len(self.ends))
        return trace_lines(_rows(self.array[self._in_steps(first, last)]), self.plan, self.ends[:last])

    def _in_steps(self, first: int, last: int) -> npt.NDArray[np.bool_]:
        """Which records lie in part in the time of steps [first, last)."""
        begin, end = ([0, *self.ends][first], self.ends[last - 1])
        inside: npt.NDArray[np.bool_] = (self.array["end_ns"] > begin) & (self.array["begin_ns"] < end)
        return inside


def _rows(array: npt.NDArray[Any]) -> list[Record]:
    return [Record(*row) for row in array.tolist()]
