"""Stages of a GPU run: commands under a time limit, with their logs kept and their results in one table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from machine import ENVIRONMENT


@dataclass
class Outcome:
    """What a stage did. `figures`: of the JSON file it was to write, else of the last line of its output."""

    name: str
    status: str  # passed, failed, timed out, skipped
    seconds: float = 0.0
    note: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


class Run:
    """Runs stages, prints their table, and writes the JSON after each: a run cut short leaves it too."""

    def __init__(self, out: Path, file: str, about: dict[str, Any]) -> None:
        self.out = out
        self.outcomes: list[Outcome] = []
        self._file, self._about = out / file, about
        out.mkdir(parents=True, exist_ok=True)

    def stage(
        self,
        name: str,
        command: list[str | Path],
        limit: int,
        *,
        env: dict[str, str] | None = None,
        figures: Path | None = None,
    ) -> bool:
        """Run one command; False when it failed or ran out of time. figures: a JSON file that it writes."""
        log = self.out / f"{name.replace(' ', '-').replace('/', '-')}.log"
        print(f"--- {name}", file=sys.stderr, flush=True)
        begin = time.monotonic()
        with log.open("w") as file:
            done = subprocess.run(
                ["timeout", "-k", "10", str(limit), *map(str, command)],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ | ENVIRONMENT | {"PYTHONUNBUFFERED": "1"} | (env or {}),
                check=False,
            )
        seconds = time.monotonic() - begin
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        outcome = Outcome(name, "passed" if done.returncode == 0 else "failed", seconds)
        if done.returncode in (124, 137):
            outcome.status = "timed out"
        found = figures.read_text() if figures and figures.is_file() else lines[-1] if lines else ""
        if found.startswith("{"):
            outcome.figures = json.loads(found)
            outcome.note = outcome.figures.pop("note", "")
        elif lines:
            outcome.note = lines[-1][:110]
        if outcome.status != "passed":
            print("\n".join(lines[-30:]), file=sys.stderr, flush=True)
        self._add(outcome)
        return done.returncode == 0

    def skip(self, name: str, reason: str) -> None:
        """Record a stage that could not run, and why."""
        self._add(Outcome(name, "skipped", note=reason))

    def _add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        results = {"about": self._about, "stages": [asdict(o) for o in self.outcomes]}
        self._file.write_text(json.dumps(results, indent=1) + "\n")

    def finish(self) -> int:
        """Print the table and return the exit status."""
        width = max(len(o.name) for o in self.outcomes)
        for o in self.outcomes:
            print(f"{o.name:<{width}}  {o.status:<9} {o.seconds:7.1f} s  {o.note}")
        bad = [o for o in self.outcomes if o.status in ("failed", "timed out")]
        skipped = sum(o.status == "skipped" for o in self.outcomes)
        print(f"{len(self.outcomes) - len(bad) - skipped} passed, {len(bad)} failed, {skipped} skipped")
        return 1 if bad else 0
