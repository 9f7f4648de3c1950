"""What the templates make of a model and of a kernel, kept in git: changes of the output show in review."""

from pathlib import Path

import pytest

from kgen.frontend.check import LoadedKernel, load_any
from kgen.passes.kernel.pipeline import compile_kernel
from kgen.passes.pipeline import compile_graph
from kgen.paths import kernel_templates, project_templates, shipped_spec
from kgen.render.project import render_project
from kgen.render.writer import write_tree

GOLDEN = Path(__file__).parents[1] / "golden"
TEMPLATES = {"tiny": project_templates(), "gemm_rs": kernel_templates()}


def substituted(name: str) -> dict[str, str]:
    """The files of a project that came from templates; the rest are copies."""
    path = shipped_spec(name)
    assert path is not None
    loaded = load_any(path)
    kernel = isinstance(loaded, LoadedKernel)
    tree = render_project(compile_kernel(loaded.graph) if kernel else compile_graph(loaded.graph))
    root = TEMPLATES[name]
    templates = [p.relative_to(root).as_posix() for p in root.rglob("*.j2")]
    return {p: tree[p] for p in sorted(t.replace("@name@", name).removesuffix(".j2") for t in templates)}


@pytest.mark.parametrize("name", TEMPLATES)
def test_output_is_as_kept(name: str, pytestconfig: pytest.Config) -> None:
    """`pytest --update-golden` writes the folder anew."""
    tree, folder = substituted(name), GOLDEN / name
    kept = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    if pytestconfig.getoption("--update-golden"):
        for path in kept.keys() - tree.keys():
            kept[path].unlink()
        write_tree(tree, folder, force=True)
        pytest.skip(f"tests/golden/{name} is written anew")
    assert sorted(kept) == sorted(tree)
    for path, text in tree.items():
        assert kept[path].read_text() == text, path
