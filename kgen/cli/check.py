"""kgen check"""

from __future__ import annotations

from kgen.cli.output import say
from kgen.cli.specs import SpecArgument, compile_spec


def check(spec: SpecArgument) -> None:
    """Read and compile a spec; report every error with its place."""
    plan = compile_spec(spec).plan
    tasks = sum(run.count for run in plan.runs)
    say(f"{plan.name}: correct; {len(plan.ops)} operators, {tasks} tasks, {len(plan.events)} events")
