"""kgen list"""

from __future__ import annotations

from typing import Annotated

import typer

from kgen.cli.output import data, data_json
from kgen.paths import shipped_specs


def list_specs(
    as_json: Annotated[bool, typer.Option("--json", help="Names and paths as JSON.")] = False,
) -> None:
    """Name the specs that come with kgen."""
    if as_json:
        data_json([{"name": name, "path": str(path)} for name, path in shipped_specs()])
        return
    for name, _ in shipped_specs():
        data(name)
