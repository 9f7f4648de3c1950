"""kgen test"""

from __future__ import annotations

from typing import Annotated

import typer

from kgen.cli.output import ExitCode, progress, stop
from kgen.cli.projects import JobsOption, PresetOption, ProjectArgument


def run_tests(
    project: ProjectArgument,
    pytest_arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- PYTEST ARGUMENTS]", help="Handed to pytest.")
    ] = None,
    preset: PresetOption = "auto",
    jobs: JobsOption = None,
) -> None:
    """Build a generated project and run its own tests. Exit 1 when one fails, 2 when they cannot be run."""
    from kgen.toolchain.build import build_project, choose_preset
    from kgen.toolchain.harness import NOT_RUN, run_harness

    chosen = choose_preset(preset)
    with progress(f"building {project} for {chosen}") as show:
        build_project(project, chosen, jobs=jobs, progress=show)
    code = run_harness(project, chosen, pytest_arguments or ())
    if code != 0:
        raise stop(ExitCode.BAD_INPUT if code in NOT_RUN else ExitCode.STALE)
