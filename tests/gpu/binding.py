"""The generated project's own binding and weight writer, loaded by path: what is tested is what users get."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def load_module(path: Path) -> ModuleType:
    """Import one file."""
    spec = importlib.util.spec_from_file_location(
        f"{path.parent.parent.name}_{path.stem}".replace("-", "_"), path
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def load_description(project: Path) -> dict[str, Any]:
    """model.json of a generated project."""
    description: dict[str, Any] = json.loads((project / "model.json").read_text())
    return description


def load_model(project: Path, library: Path, weights: Path, **options: int) -> Any:
    """A Model of the project's Python binding."""
    name = load_description(project)["name"]
    return load_module(project / "python" / f"{name}.py").Model(weights, library=library, **options)


def write_random_weights(project: Path, path: Path, seed: int) -> None:
    """A packed file of random weights, as the project's own harness makes it."""
    load_module(project / "tests" / "packed.py").write_random(load_description(project), path, seed)
