"""The tiny model as a project: rendered, built, with random weights."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kgen.frontend.build import build_graph
from kgen.passes.pipeline import compile_graph
from kgen.paths import shipped_spec
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.spec.load import load_spec
from kgen.toolchain.build import build_project


def load_module(path: Path) -> ModuleType:
    """A Python file of a generated project as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"generated_{path.stem}_{abs(hash(path))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, not built."""
    path = shipped_spec("tiny")
    assert path is not None
    folder = tmp_path_factory.mktemp("engine") / "tiny"
    write_tree(render_project(compile_graph(build_graph(load_spec(path)))), folder)
    return folder


@pytest.fixture(scope="session")
def host_build(project: Path) -> tuple[Path, str]:
    """The library of preset host, and what the build printed."""
    lines: list[str] = []
    folder = build_project(project, "host", progress=lines.append)
    return folder / "libtiny.so", "\n".join(lines)


@pytest.fixture(scope="session")
def weights(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed file of random weights, made by the project's own harness."""
    import json

    packed = load_module(project / "tests" / "packed.py")
    path = tmp_path_factory.mktemp("weights") / "random.weights"
    packed.write_random(json.loads((project / "model.json").read_text()), path)
    return path


@pytest.fixture
def variant(project: Path, tmp_path: Path) -> Callable[[str, str, str], Path]:
    """A copy of the sources with a piece of one file replaced."""

    def make(file: str, old: str, new: str) -> Path:
        copy = tmp_path / "variant"
        shutil.copytree(project, copy, ignore=shutil.ignore_patterns("build"))
        text = (copy / file).read_text()
        assert old in text
        (copy / file).write_text(text.replace(old, new))
        return copy

    return make
