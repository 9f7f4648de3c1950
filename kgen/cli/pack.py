"""kgen pack"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgen.cli.output import counted, progress, say
from kgen.cli.projects import ProjectArgument, some_path


def pack(
    project: ProjectArgument,
    weights: Annotated[
        Path,
        typer.Option(
            "--weights",
            "-w",
            parser=some_path,
            metavar="PATH",
            help="A GGUF or safetensors file, or a folder of safetensors files.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            parser=some_path,
            metavar="FILE",
            help="The packed file [default: DIR/weights.bin].",
        ),
    ] = None,
) -> None:
    """Turn a checkpoint into the file that a generated library loads."""
    from kgen.weights.pack import pack_weights

    with progress(f"packing {weights}") as show:

        def report_bytes(done: int, total: int) -> None:
            if show is not None:
                show(f"{done / 1e6:.0f} of {total / 1e6:.0f} MB")

        report = pack_weights(project, weights, out or project / "weights.bin", progress=report_bytes)
    say(f"{report.out}: {counted(report.tensors, 'tensor')}, {report.bytes} bytes")
    if report.ignored:
        say(f"left out, as the model does not use them: {', '.join(report.ignored)}")
