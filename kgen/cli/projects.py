"""Arguments of the commands that work on a generated project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def some_path(text: str) -> Path:
    """A path that was typed. An empty one is refused: it would mean the working directory."""
    if not text:
        raise typer.BadParameter("a path cannot be empty")
    return Path(text)


ProjectArgument = Annotated[
    Path,
    typer.Argument(
        parser=some_path, metavar="DIR", help="A project that `kgen generate` wrote.", show_default=False
    ),
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
