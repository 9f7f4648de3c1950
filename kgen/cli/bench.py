"""kgen bench"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from kgen.cli.output import ExitCode, UsageError, data_json, progress, stop
from kgen.cli.projects import JobsOption, PresetOption, ProjectArgument, some_path

_MODEL_CASE = re.compile(r"[1-9]\d*x[1-9]\d*")


def bench(
    project: ProjectArgument,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            metavar="CASE",
            help="Of a model BATCHxCONTEXT: sequences at once, and tokens in the cache of each. Of a kernel "
            "sizes such as M=4096. May be given again.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            "-w",
            parser=some_path,
            metavar="FILE",
            help="Of a model: a packed file [default: random weights].",
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option(min=0, help="Of a model: steps to decode besides, in calls that must agree.")
    ] = 0,
    torch: Annotated[
        bool, typer.Option("--torch/--no-torch", help="Of a model: use PyTorch if it is installed.")
    ] = True,
    world: Annotated[
        int | None,
        typer.Option(
            min=1, help="Of a kernel: the ranks, a GPU each [default: the fewest that are several]."
        ),
    ] = None,
    preset: PresetOption = "auto",
    jobs: JobsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Build a project, time it and check its output. Exit 1 where that is wrong.

    The time of a model is that of a step. A kernel is timed on GPUs, beside PyTorch, which it needs.
    """
    from kgen.toolchain.bench import can_bench_kernel, run_bench
    from kgen.toolchain.build import build_project, choose_preset, is_kernel

    if is_kernel(project):
        _refuse(project, "kernel", {"--weights": weights, "--steps": steps, "--no-torch": not torch})
        chosen, arguments = _kernel_preset(preset), [f"--case={one}" for one in case or ()]
        arguments += [f"--world={world}"] if world else []
        if not can_bench_kernel(project, arguments):
            raise stop(ExitCode.BAD_INPUT)
    else:
        _refuse(project, "model", {"--world": world})
        chosen, arguments = choose_preset(preset), [f"--steps={steps}", *_model_cases(case or [])]
        arguments += [f"--weights={weights}"] if weights else []
        arguments += [] if torch else ["--no-torch"]
    with progress(f"building {project} for {chosen}") as show:
        build_project(project, chosen, jobs=jobs, progress=show)
    code, report = run_bench(project, chosen, arguments, table=not as_json)
    if as_json and report is not None:
        data_json(report)
    if code != 0:
        raise stop(ExitCode.STALE if code == ExitCode.STALE else ExitCode.BAD_INPUT)


def _refuse(project: Path, kind: str, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value:
            raise UsageError(f"{project} is the project of a {kind}, whose bench has no {name}")


def _kernel_preset(preset: str) -> str:
    if preset not in ("auto", "cuda"):
        raise UsageError(f"the bench of a kernel runs on GPUs: --preset cuda, not {preset}")
    return "cuda"


def _model_cases(cases: list[str]) -> list[str]:
    for case in cases:
        if not _MODEL_CASE.fullmatch(case):
            raise UsageError(f"--case: '{case}' is not BATCHxCONTEXT, such as 4x1024")
    return ["--case", *cases] if cases else []
