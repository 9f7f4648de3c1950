"""The Python modules of the bench that projects carry, imported from the templates."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from kgen.paths import project_templates

PARTS = [str(project_templates() / part) for part in ("bench", "tests")]


def bench_module(name: str) -> ModuleType:
    """A module of bench/, which may import its neighbours."""
    before = sys.path.copy()
    sys.path[:0] = PARTS
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = before
