"""A model as a project that was generated and compiled, with random weights."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kgen.frontend.build import build_graph
from kgen.passes.pipeline import compile_graph
from kgen.plan.plan import Plan
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.spec.load import parse_spec
from kgen.toolchain.find import find_cxx

# Those of cmake/host.cmake, but for the level of optimization: compiling is most of the time here.
_FLAGS = "-std=c++20 -O1 -march=native -ffp-contract=fast -fno-math-errno -Wno-psabi -fPIC -shared -pthread"


@dataclass(frozen=True)
class Project:
    """Where it is, its plan, and its packed weights; `model` is model.json."""

    path: Path
    plan: Plan
    model: dict[str, Any]
    library: Path
    packed: Path

    @contextmanager
    def opened(self, **options: Any) -> Iterator[Any]:
        """A model of the project's own Python binding."""
        binding = load_module(self.path / "python" / f"{self.plan.name}.py")
        with binding.Model(self.packed, library=self.library, **options) as model:
            yield model

    def weights(self) -> dict[str, Any]:
        """The packed weights as f32 arrays, read by the project's own harness."""
        result: dict[str, Any] = self.harness("packed").read_weights(self.model, self.packed)
        return result

    def harness(self, name: str) -> ModuleType:
        """A module of the project's tests, which find each other on the path."""
        folder = str(self.path / "tests")
        for shared in ("packed", "project"):
            sys.modules.pop(shared, None)
        sys.path.insert(0, folder)
        try:
            return load_module(self.path / "tests" / f"{name}.py")
        finally:
            sys.path.remove(folder)


def make_project(spec: str, folder: Path) -> Project:
    """Generate, compile, and write random weights."""
    plan_of = compile_graph(build_graph(parse_spec(spec)))
    write_tree(render_project(plan_of), folder)
    cxx = find_cxx()
    assert cxx is not None
    library = folder / "build" / f"lib{plan_of.plan.name}.so"
    library.parent.mkdir()
    define = f"-D{plan_of.plan.name.upper()}_BUILDING"
    command = [str(cxx.path), *_FLAGS.split(), define, "-Iinclude", "-Isrc", "src/api.cpp", "src/plan.cpp"]
    done = subprocess.run(
        [*command, "-o", str(library)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    model = json.loads((folder / "model.json").read_text())
    project = Project(folder, plan_of.plan, model, library, folder / "random.weights")
    project.harness("packed").write_random(model, project.packed)
    return project


def load_module(path: Path) -> ModuleType:
    """A Python file as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"oracle_{path.stem}_{abs(hash(path))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
