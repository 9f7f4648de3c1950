"""kgen schema"""

from __future__ import annotations

from kgen.cli.output import data_json


def schema() -> None:
    """Print the JSON Schema of specs, for editors."""
    from kgen.spec.schema import json_schema

    data_json(json_schema())
