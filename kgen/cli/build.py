"""kgen build"""

from __future__ import annotations

from kgen.cli.output import data, progress, say
from kgen.cli.projects import JobsOption, PresetOption, ProjectArgument


def build(project: ProjectArgument, preset: PresetOption = "auto", jobs: JobsOption = None) -> None:
    """Configure and build a generated project; print the build folder."""
    from kgen.toolchain.build import build_project, choose_preset
    from kgen.toolchain.kernel_report import read_report

    chosen = choose_preset(preset)
    with progress(f"building {project} for {chosen}") as show:
        folder = build_project(project, chosen, jobs=jobs, progress=show)
    report = read_report(folder)
    for line in report.lines() if report else ():
        say(line)
    say(f"{project} is built for {chosen}")
    data(str(folder))
