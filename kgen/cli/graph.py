"""kgen graph"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kgen.cli.output import UsageError, data, say
from kgen.cli.specs import BatchOption, SpecArgument, WorkersOption, compile_spec


class GraphFormat(StrEnum):
    """What `kgen graph` can draw."""

    DOT = "dot"
    MERMAID = "mermaid"
    HTML = "html"


def graph(
    spec: SpecArgument,
    form: Annotated[GraphFormat, typer.Option("--format", help="What to write.")] = GraphFormat.DOT,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The file [default: standard output].")
    ] = None,
    batch: BatchOption = None,
    workers: WorkersOption = None,
) -> None:
    """Draw the operators and events of a spec."""
    from kgen.report import graph as drawings

    draw = {
        GraphFormat.DOT: drawings.to_dot,
        GraphFormat.MERMAID: drawings.to_mermaid,
        GraphFormat.HTML: drawings.to_html,
    }[form]
    text = draw(compile_spec(spec, batch=batch, workers=workers))
    if out is None:
        data(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from error
    say(f"{out} is written")
