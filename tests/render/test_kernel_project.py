"""The project of a kernel: what it is made of."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from kgen.passes.kernel.pipeline import compile_kernel
from kgen.passes.pipeline import compile_graph
from kgen.plan.kernel.runtime import refusals
from kgen.render.project import MANIFEST, render_project
from tests.graphs import TINY, build
from tests.kernels import AG_ALL, COLLECTIVES, IN_NETWORK, RS, SMALL, SPECS, kernel, shipped
from tests.render.test_project import ROOT, unformatted

NAMES = [name for name in sorted(path.stem for path in SPECS.glob("*.yaml")) if not refusals(shipped(name))]
MULTICAST = re.compile(r"multimem|cuMulticast", re.IGNORECASE)
INCLUDE = re.compile(r'#include "([^"]+)"')


@cache
def tree_of(name: str) -> dict[str, str]:
    return render_project(compile_kernel(shipped(name)))


def test_what_there_is() -> None:
    assert set(NAMES) >= {"gemm", "ag_gemm", "ag_gemm_silu_mul", "gemm_rs"}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_substituted_and_nothing_is_left_open(name: str) -> None:
    tree = tree_of(name)
    assert {f"include/{name}/{name}.h", f"python/{name}.py", "src/api.cpp", "CMakePresets.json"} < set(tree)
    assert {".clang-format", ".gitignore", "include/mpk/engine/error.hpp", MANIFEST} < set(tree)
    assert not [path for path in tree if "@" in path or path.endswith(".j2")]
    assert not [path for path, text in tree.items() if "{% " in text or "{{ " in text or "@name@" in text]


@pytest.mark.parametrize("name", NAMES)
def test_headers_are_those_that_are_used(name: str) -> None:
    tree = tree_of(name)
    included = {f"include/{path}" for text in tree.values() for path in INCLUDE.findall(text)}
    library = {path for path in tree if path.startswith("include/pk/")}
    assert library <= included
    assert {path for path in included if path.startswith("include/pk/")} == library
    assert not MULTICAST.search("".join(tree.values()))


@pytest.mark.parametrize("loose", ["", "deterministic: false\n"])
@pytest.mark.parametrize("text", [*SMALL.values(), *COLLECTIVES.values()])
def test_multicast_is_only_where_a_spec_asks_for_it(text: str, loose: str) -> None:
    tree = render_project(compile_kernel(kernel(text + loose)))
    assert not [path for path, content in tree.items() if MULTICAST.search(content)]
    asked = render_project(compile_kernel(kernel(IN_NETWORK)))
    code = [path for path, content in asked.items() if MULTICAST.search(content) and "include/pk" in path]
    assert {"include/pk/ptx/multimem.hpp", "include/pk/bootstrap/cuda/multicast.hpp"} <= set(code)


def test_a_kernel_in_the_network() -> None:
    """It has no share, and says what nobody has tried."""
    tree = render_project(compile_kernel(kernel(IN_NETWORK)))
    assert "small_share" not in "".join(tree.values())
    assert "on GPUs it has never been run" in " ".join(tree["README.md"].split())
    assert "Measure" not in tree["README.md"]
    assert "\n\n\n" not in tree["README.md"]
    assert "UNSUPPORTED_DEVICE" in tree["include/small/small.h"].split("#ifndef")[0]
    assert json.loads(tree["kernel.json"])["transfer"] == "multimem"
    library = {path for path in tree if path.startswith("include/pk/")}
    assert library <= {f"include/{path}" for text in tree.values() for path in INCLUDE.findall(text)}


def test_models_have_none_of_the_headers_of_kernels() -> None:
    tree = render_project(compile_graph(build(TINY)))
    layers = {path.split("/")[2] for path in tree if path.startswith("include/pk/")}
    assert "platform" in layers
    assert not layers & {"lcsc", "engine", "bootstrap", "primitives"}
    for path in (path for path in tree if path.startswith("include/pk/")):
        assert tree[path] == (ROOT / "templates/project" / path).read_text()


def test_the_plan_is_in_kernel_json() -> None:
    about = json.loads(tree_of("gemm_rs")["kernel.json"])
    assert about["worlds"] == [1, 2, 4, 8]
    assert about["dims"][0] == {"name": "M", "lo": 1, "hi": 32768}
    roles = [(tensor["name"], tensor["role"], tensor["shard"]) for tensor in about["tensors"]]
    assert roles == [("a", "rows", 1), ("b", "weight", 1), ("d", "output", 0)]


@pytest.mark.parametrize("name", NAMES)
def test_the_binding(name: str) -> None:
    """It is Python, it has `share` where the library has, and it is tested in the project."""
    tree = tree_of(name)
    kernel_class = next(
        n for n in ast.parse(tree[f"python/{name}.py"]).body if getattr(n, "name", "") == "Kernel"
    )
    assert isinstance(kernel_class, ast.ClassDef)
    methods = {node.name for node in kernel_class.body if isinstance(node, ast.FunctionDef)}
    shares = json.loads(tree["kernel.json"])["shares"]
    assert ("share" in methods) == shares
    assert shares == (f"{name}_share(" in tree[f"include/{name}/{name}.h"])
    assert "tests/test_binding.py" in tree


@pytest.mark.parametrize("text", [AG_ALL, RS, IN_NETWORK], ids=["ag", "rs", "network"])
def test_sources_are_formatted(text: str, tmp_path: Path) -> None:
    """Those that come from templates; the others are checked where they lie."""
    tree = render_project(compile_kernel(kernel(text)))
    folders = ("src/", "include/small/", "examples/", ".clang")
    made = {path: t for path, t in tree.items() if path.startswith(folders)}
    assert len(made) > 5
    assert unformatted(made, tmp_path) == ""
