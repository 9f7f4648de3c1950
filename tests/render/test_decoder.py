"""The decoder in `src/program.hpp`: what a C++ compiler reads there must be the plan's."""

import re
import subprocess
from dataclasses import astuple, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgen.frontend.build import build_graph
from kgen.ir.graph import AttentionDeal, Worker
from kgen.passes.pipeline import compile_graph
from kgen.paths import shipped_spec
from kgen.plan.decoder import Decoder, DecoderLayer, find_decoder
from kgen.plan.plan import Plan
from kgen.render.decoder import make_decoder
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.spec.load import load_spec
from tests.render.test_project import unformatted

DUMP = r"""
#include <cstdio>
#include <type_traits>
#include "program.hpp"
using D = generated::NAME::Program::Decoder;
#define SHOW(x) std::printf(#x " %.17g\n", double(D::x));
int main() {
    FIELDS
    for (const D::Layer& l : D::layer) std::printf("layer" LAYER_FORMAT "\n", LAYER_VALUES);
}
"""


def plan_of(spec: str) -> Plan:
    path = shipped_spec(spec)
    assert path is not None
    return compile_graph(build_graph(load_spec(path))).plan


def rendered(plan: Plan) -> dict[str, str]:
    compilation: Any = SimpleNamespace(plan=plan)
    return render_project(compilation)


def decoder_alias(tree: dict[str, str]) -> str:
    """What `Program::Decoder` is, and the comment before it, as one line."""
    found = re.search(r"struct Program \{\n((?: +//.*\n)*) +using Decoder = (.*);", tree["src/program.hpp"])
    assert found is not None
    comment = " ".join(line.strip().removeprefix("// ") for line in found[1].splitlines())
    return f"{comment} {found[2]}".strip()


def test_the_compiler_reads_the_decoder_of_the_plan(tmp_path: Path) -> None:
    plan = plan_of("tiny-decoder")
    runtime = replace(plan.runtime, pipelining=False, attention=AttentionDeal.AOT)
    plan = replace(plan, runtime=runtime)
    decoder = find_decoder(plan)
    assert isinstance(decoder, Decoder)
    write_tree(rendered(plan), tmp_path / "project")
    names = [field.name for field in fields(Decoder)]
    layer = [field.name for field in fields(DecoderLayer)]
    source = DUMP.replace("NAME", plan.name).replace("FIELDS", "".join(f"SHOW({name})\n" for name in names))
    source = source.replace("LAYER_FORMAT", f'"{" %d" * len(layer)}"')
    source = source.replace("LAYER_VALUES", ", ".join(f"l.{name}" for name in layer))
    (tmp_path / "dump.cpp").write_text(source)
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Iproject/include", "-Iproject/src"]
    subprocess.run(["g++", *flags, "dump.cpp", "-o", "dump"], cwd=tmp_path, check=True)
    lines = subprocess.check_output([tmp_path / "dump"], text=True).splitlines()
    values = dict(line.split() for line in lines[: len(names)])
    expected = {name: getattr(decoder, name) for name in names} | {"layers": len(decoder.layers)}
    assert {name: float(value) for name, value in values.items()} == expected
    assert lines[len(names) :] == [
        "layer " + " ".join(str(n or 0) for n in astuple(layer)) for layer in decoder.layers
    ]


def test_what_is_no_decoder_says_why() -> None:
    assert decoder_alias(rendered(plan_of("qwen2.5-0.5b"))) == (
        "None: this is not a model for the cluster worker (every layer: the QKV projection has a bias). void"
    )
    assert decoder_alias(rendered(plan_of("tiny"))) == (
        "None: this is not a model for the cluster worker (hidden is 72, not a multiple of 256, and 5 more "
        "reasons). void"
    )
    assert "struct Decoder" not in rendered(plan_of("tiny"))["src/program.hpp"]


def test_a_decoder_for_the_general_worker_has_no_struct() -> None:
    plan = plan_of("tiny-decoder")
    assert decoder_alias(rendered(plan)) == "generated::tiny_decoder::Decoder"
    general = replace(plan, runtime=replace(plan.runtime, worker=Worker.GENERAL))
    assert decoder_alias(rendered(general)).endswith("(the spec asks for the general worker). void")


def test_absent_norms_are_zero_in_the_table() -> None:
    view = make_decoder(plan_of("llama-3.2-1b"))
    assert len(view.layers) == 16
    assert view.layers[15] == "{112, 113, 0, 0, 114, 115, 116, 117, 118},  // layer 15"


@pytest.mark.parametrize("spec", ["tiny", "tiny-decoder"])
def test_sources_are_formatted(spec: str, tmp_path: Path) -> None:
    tree = rendered(plan_of(spec))
    own = {path: text for path, text in tree.items() if path.startswith(("src/", ".clang-format"))}
    assert unformatted(own, tmp_path) == ""
