"""What the templates make of the tiny model, kept in git: a change of the output is seen in review."""

from pathlib import Path

import pytest

from kgen.frontend.build import build_graph
from kgen.passes.pipeline import compile_graph
from kgen.paths import project_templates, shipped_spec
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.spec.load import load_spec

GOLDEN = Path(__file__).parents[1] / "golden" / "tiny"


def substituted() -> dict[str, str]:
    """The files of the tiny project that came from templates; the rest are copies of headers."""
    path = shipped_spec("tiny")
    assert path is not None
    tree = render_project(compile_graph(build_graph(load_spec(path))))
    templates = [p.relative_to(project_templates()).as_posix() for p in project_templates().rglob("*.j2")]
    return {p: tree[p] for p in sorted(t.replace("@name@", "tiny").removesuffix(".j2") for t in templates)}


def test_output_is_as_kept(pytestconfig: pytest.Config) -> None:
    """`pytest --update-golden` writes the folder anew."""
    tree = substituted()
    kept = {p.relative_to(GOLDEN).as_posix(): p for p in GOLDEN.rglob("*") if p.is_file()}
    if pytestconfig.getoption("--update-golden"):
        for path in kept.keys() - tree.keys():
            kept[path].unlink()
        write_tree(tree, GOLDEN, force=True)
        pytest.skip("tests/golden is written anew")
    assert sorted(kept) == sorted(tree)
    for path, text in tree.items():
        assert kept[path].read_text() == text, path
