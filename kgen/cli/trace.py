"""kgen trace"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Annotated

import typer

from kgen.cli.output import UsageError, counted, data_json, progress, say
from kgen.cli.projects import JobsOption, PresetOption, ProjectArgument, some_path


def trace(
    project: ProjectArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            parser=some_path,
            metavar="FILE",
            help="The trace, compressed if it ends in .gz [default: DIR/build/trace.json.gz].",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            "-w",
            parser=some_path,
            metavar="PATH",
            help="Packed file or checkpoint [default: DIR/weights.bin, else random weights].",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences decoded at once.")] = 1,
    prompt: Annotated[int, typer.Option(min=1, help="Tokens of each prompt.")] = 16,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens generated for each.")] = 16,
    workers: Annotated[int, typer.Option(min=0, max=0xFFFFFFFF, help="SMs or threads; 0: all.")] = 0,
    records: Annotated[
        int, typer.Option(min=0, max=0xFFFFFFFF, help="Kept of each track of a worker; 0: 2 GiB in all.")
    ] = 0,
    steps: Annotated[int, typer.Option(min=0, help="In the trace, around the median one; 0: all.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    preset: PresetOption = "auto",
    jobs: JobsOption = None,
) -> None:
    """Record what each worker does; print where a step's time goes.

    The trace is for ui.perfetto.dev. The project is built once more, with recording on.
    """
    from kgen.report.recording import NoWholeStep
    from kgen.report.timeline_table import to_table
    from kgen.tracer import Load, record

    with progress(f"tracing {project}") as show:
        recording = record(
            project,
            Load(batch, prompt, tokens),
            weights=weights,
            preset=preset,
            workers=workers,
            capacity=records,
            jobs=jobs,
            progress=show,
        )
    try:
        report = recording.report()
    except NoWholeStep as error:
        text = (
            f"no step was recorded as a whole: {recording.dropped:,} records did not fit, give more --records"
        )
        raise UsageError(text) from error
    target = out or project / "build" / "trace.json.gz"
    with gzip.open(target, "wt", compresslevel=5) if target.suffix == ".gz" else target.open("w") as file:
        file.writelines(recording.trace(steps))
    if as_json:
        data_json(report.to_json())
    else:
        from rich.console import Console

        Console().print(to_table(report))
    say(f"{target} is written, {counted(report.records, 'record')} in all; open it in ui.perfetto.dev")
    if report.dropped:
        first = recording.first_cut_step
        say(f"{report.dropped:,} records of steps from {first} on did not fit; --records makes room")
