import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from kgen.render import project
from kgen.render.project import MANIFEST, render_project
from kgen.render.writer import write_tree

ROOT = Path(__file__).parents[2]


def test_name_is_substituted_in_paths_and_texts(hand_made: Any) -> None:
    tree = render_project(hand_made)
    assert "include/hand/hand.h" in tree
    assert "hand_create" in tree["include/hand/hand.h"]
    assert not [path for path in tree if "@" in path or path.endswith(".j2")]
    assert not [path for path, text in tree.items() if "{% " in text or "{{ " in text or "@name@" in text]


def test_other_files_are_copied_as_they_are(hand_made: Any) -> None:
    tree = render_project(hand_made)
    template = ROOT / "templates" / "project" / "include" / "mpk" / "descriptors.hpp"
    assert tree["include/mpk/descriptors.hpp"] == template.read_text()


def test_nothing_uses_nvlink_multicast(hand_made: Any) -> None:
    """It is a choice that a spec has to make by name, and no spec can make it yet."""
    multicast = re.compile(r"multimem|cuMulticast|\.multicast", re.IGNORECASE)
    assert all(map(multicast.search, ("multimem.red.add", "cuMulticastCreate(", "x.multicast::cluster")))
    assert not [path for path, text in render_project(hand_made).items() if multicast.search(text)]


def test_manifest_names_every_other_file_with_its_hash(hand_made: Any, tmp_path: Path) -> None:
    """sha256sum is the independent reference."""
    tree = render_project(hand_made)
    write_tree(tree, tmp_path / "out")
    manifest = json.loads(tree[MANIFEST])
    assert sorted(manifest) == ["files", "kgen", "name"]
    assert set(manifest["files"]) == set(tree) - {MANIFEST}
    lines = "".join(f"{digest}  {path}\n" for path, digest in manifest["files"].items())
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet"],
        cwd=tmp_path / "out",
        input=lines,
        text=True,
        check=True,
    )


def test_no_file_tells_where_or_when_it_was_made(hand_made: Any) -> None:
    year = re.compile(r"\b20[2-9]\d-\d\d-\d\d\b")
    for path, text in render_project(hand_made).items():
        assert str(ROOT) not in text, path
        assert str(Path.home()) + "/" not in text, path
        assert not year.search(text), path


def test_a_name_that_a_template_does_not_know_is_an_error(
    hand_made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file.j2").write_text("{{ nmae }}")
    monkeypatch.setattr(project, "project_templates", lambda: tmp_path)
    with pytest.raises(UndefinedError, match="nmae"):
        render_project(hand_made)


def test_leftovers_of_tools_are_not_templates(
    hand_made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"\xff")
    (tmp_path / "file").write_text("text")
    monkeypatch.setattr(project, "project_templates", lambda: tmp_path)
    assert sorted(render_project(hand_made)) == ["file", MANIFEST]


def test_longer_names_keep_the_sources_formatted(hand_made: Any, tmp_path: Path) -> None:
    named = replace(hand_made, plan=replace(hand_made.plan, name="llama_3_2_1b_instruct"))
    assert unformatted(render_project(named), tmp_path) == ""


def test_sources_are_formatted(hand_made: Any, tmp_path: Path) -> None:
    assert unformatted(render_project(hand_made), tmp_path) == ""


def unformatted(tree: dict[str, str], folder: Path) -> str:
    """What the pinned clang-format says about the C and C++ files of a tree, with the tree's own settings."""
    write_tree(tree, folder / "out")
    sources = [path for path in tree if path.endswith((".h", ".hpp", ".cpp", ".cu", ".cuh"))]
    clang_format = Path(sys.executable).parent / "clang-format"
    command = [clang_format, "--dry-run", "--style=file", *sources]
    return subprocess.run(command, cwd=folder / "out", capture_output=True, text=True, check=True).stderr


@pytest.mark.parametrize("spec", ["tiny", "tiny-decoder", "qwen3-0.6b"])
def test_the_same_spec_gives_the_same_bytes(spec: str, tmp_path: Path) -> None:
    """In processes that order sets differently, in different folders."""
    kgen = Path(sys.executable).parent / "kgen"
    trees = []
    for seed in ("1", "4711"):
        folder = tmp_path / seed
        folder.mkdir()
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([kgen, "generate", spec, "-o", "out"], cwd=folder, env=environment, check=True)
        files = (path for path in (folder / "out").rglob("*") if path.is_file())
        trees.append({path.relative_to(folder): path.read_bytes() for path in files})
    assert trees[0] == trees[1]
