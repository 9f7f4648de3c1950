"""The house rules that a reader relies on: which package may import which, and who may touch the disk."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

KGEN = Path(__file__).parents[1] / "kgen"

# Imports run one way along the road spec -> frontend -> ir -> tgraph -> passes -> plan -> render.
ALLOWED = {
    "diagnostics": set(),
    "paths": set(),
    "spec": {"diagnostics"},
    "ir": set(),
    "frontend": {"diagnostics", "spec", "ir"},
    "tgraph": {"ir"},
    "plan": {"ir", "tgraph"},
    "passes": {"ir", "tgraph", "plan"},
    "render": {"ir", "plan", "passes", "paths"},
    "report": {"ir", "tgraph", "plan", "passes"},
    "weights": {"paths"},
    "toolchain": {"paths"},
    "runner": {"weights", "toolchain", "paths"},
    "tracer": {"runner", "report", "weights", "toolchain", "paths"},
}
# Opening files for writing, making folders, running programs.
DISK = {
    "write_text",
    "write_bytes",
    "mkdir",
    "rename",
    "unlink",
    "rmtree",
    "rmdir",
    "symlink_to",
    "touch",
    "Popen",
}
MAY_TOUCH_DISK = {"render/staging.py", "render/writer.py", "toolchain", "weights", "runner.py", "cli"}


def modules() -> list[Path]:
    return sorted(p for p in KGEN.rglob("*.py") if "templates" not in p.parts and p.stat().st_size)


def package_of(path: Path) -> str:
    part = path.relative_to(KGEN).parts[0]
    return part.removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(KGEN)))
def test_imports_run_one_way(path: Path) -> None:
    package = package_of(path)
    if package in ("cli", "__init__", "__main__"):
        return
    assert package in ALLOWED, f"{package} is new: say here what it may import"
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("kgen."):
                target = name.split(".")[1]
                assert target in ALLOWED[package] | {package}, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(KGEN)))
def test_only_the_writer_and_the_toolchain_touch_the_disk(path: Path) -> None:
    relative = str(path.relative_to(KGEN))
    if relative.startswith(tuple(MAY_TOUCH_DISK)):
        return
    called = {
        node.func.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not called & DISK


def test_files_stay_small() -> None:
    root = KGEN.parent
    files = [*modules(), *(root / "templates").rglob("*.[hj]*"), *(root / "tests").rglob("*.py")]
    long = {str(p.relative_to(root)): n for p in files if (n := len(p.read_text().splitlines())) > 400}
    assert not long
