"""kgen graph"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kgen.cli.output import data, say
from kgen.cli.projects import some_path
from kgen.cli.specs import BatchOption, SpecArgument, WorkersOption, compile_model


class GraphFormat(StrEnum):
    """What `kgen graph` can draw."""

    DOT = "dot"
    MERMAID = "mermaid"
    HTML = "html"


class GraphLevel(StrEnum):
    """The levels of kgen.report.drawing, repeated so that starting kgen does not load the compiler."""

    LAYERS = "layers"
    OPERATORS = "operators"


def graph(
    spec: SpecArgument,
    form: Annotated[GraphFormat, typer.Option("--format", help="What to write.")] = GraphFormat.DOT,
    level: Annotated[
        GraphLevel, typer.Option(help="layers draws one layer for all that are alike.")
    ] = GraphLevel.LAYERS,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", parser=some_path, metavar="FILE", help="The file [default: standard output]."
        ),
    ] = None,
    batch: BatchOption = None,
    workers: WorkersOption = None,
) -> None:
    """Draw the operators and events of a spec."""
    from kgen.report.drawing import Level
    from kgen.report.graph import to_dot, to_html, to_mermaid

    draw = {GraphFormat.DOT: to_dot, GraphFormat.MERMAID: to_mermaid, GraphFormat.HTML: to_html}[form]
    text = draw(compile_model(spec, batch=batch, workers=workers), Level(level.value))
    if out is None:
        data(text)
        return
    out.write_text(text, encoding="utf-8")
    say(f"{out} is written")
