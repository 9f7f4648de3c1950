"""kgen doctor"""

from __future__ import annotations

from typing import Annotated

import typer

from kgen.cli.output import ExitCode, data, data_json, stop


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="The same for a machine.")] = False,
) -> None:
    """Say what this machine can build and run, and what to install."""
    from kgen.toolchain.doctor import diagnose

    report = diagnose()
    if as_json:
        data_json(report.to_json())
    else:
        width = max(len(check.name) for check in report.checks)
        for check in report.checks:
            mark = "ok     " if check.ok else "missing" if not check.found else "unfit  "
            data(f"{mark}  {check.name:{width}}  {check.found}".rstrip())
            if check.remedy:
                data(f"{'':{width + 11}}{check.remedy}")
        data("")
        data(f"build and run on the CPU:  {_yes(report.host)}")
        data(f"build for NVIDIA GPUs:     {_yes(report.cuda_build)}")
        data(f"run on a GPU here:         {_yes(report.cuda_run)}")
    if not report.host:
        raise stop(ExitCode.TOOLCHAIN)


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"
