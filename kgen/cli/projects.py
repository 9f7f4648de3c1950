"""Arguments of the commands that work on a generated project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ProjectArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A project that `kgen generate` wrote.", show_default=False)
]
PresetOption = Annotated[
    str,
    typer.Option(
        "--preset", help="A CMake preset: host, host-tsan or cuda; auto takes cuda where it can run."
    ),
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Compilations at once [default: one per core].")
]
