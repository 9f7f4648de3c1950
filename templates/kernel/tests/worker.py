"""One rank as a process: makes the kernel, runs a problem some times, checks it.

The argument is JSON: rank, world, rendezvous, library, device (null: host), sizes, and what a test wants.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "python"), str(Path(__file__).parent)]

from memory import Memory  # noqa: E402
from problem import Problem  # noqa: E402
from project import KERNEL  # noqa: E402
from ranks import Rank, open_kernel  # noqa: E402


def main() -> None:
    """Does what the argument says; ends with 0 if all is right."""
    case: dict[str, Any] = json.loads(sys.argv[1])
    rank, world = case["rank"], case["world"]
    binding = importlib.import_module(KERNEL["name"])
    devices = case.get("devices", 0)
    memory = Memory(rank % devices if devices else None)
    problem = Problem(world, case["sizes"], exact=case.get("exact", False))
    expected = problem.expected()[rank]
    options = {"device": rank % devices} if devices else {"sms": case.get("sms", 2)}
    if "timeout_ms" in case:
        options["timeout_ms"] = case["timeout_ms"]
    if case.get("dies_before_meeting") == rank:
        return
    given = (-1, -1, None) if case.get("by_environment") else (rank, world, case["rendezvous"])
    with open_kernel(binding, case["library"], *given, **options) as kernel:
        assert (kernel.info.rank, kernel.info.world) == (rank, world)
        mine = Rank(kernel, memory, problem)
        pauses = random.Random(rank)
        for turn in range(case.get("runs", 1)):
            if case.get("dies_in_run") == [rank, turn]:
                os.kill(os.getpid(), signal.SIGKILL)
            if case.get("late"):
                time.sleep(pauses.random() * 0.003)
            mine.poison()
            mine.run()
            mine.kernel.wait()
            mine.check(expected, f"rank {rank}, run {turn}")
        print(kernel.info.peer_memory)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
