"""The error of every pass."""

from __future__ import annotations

from collections.abc import Sequence


class CompileError(Exception):
    """A graph that cannot be compiled: `problems` are sentences that name operators or tasks.

    Those that are a `Problem` also say which operator or runtime limit they are about.
    """

    def __init__(self, stage: str, problems: Sequence[str]) -> None:
        self.stage = stage
        self.problems = tuple(problems)
        shown = list(self.problems[:8])
        if len(self.problems) > len(shown):
            shown.append(f"and {len(self.problems) - len(shown)} more")
        super().__init__(f"{stage}: " + "; ".join(shown))
