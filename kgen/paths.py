"""Where things lie: templates and shipped specs, in a checkout or an installed wheel; generated projects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _data(name: str) -> Path:
    """The wheel carries the folder inside the package; a checkout keeps it beside the package."""
    packaged = _PACKAGE / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def project_templates() -> Path:
    """The folder whose tree a model's project mirrors; kernels share some of its headers."""
    return _data("templates") / "project"


def kernel_templates() -> Path:
    """The folder whose tree a kernel's project mirrors, besides what it shares with models."""
    return _data("templates") / "kernel"


def no_project(folder: Path) -> str:
    """What is said of a folder that is not what it was taken for."""
    return f"{folder} is not a generated project; `kgen generate SPEC -o {folder}` makes one"


def no_model(folder: Path) -> str:
    """The same of a folder that was taken for the project of a model."""
    if (folder / "kernel.json").is_file():
        return f"{folder} is the project of a kernel, and this is for models"
    return no_project(folder)


def shipped_specs(kind: str = "") -> Iterator[tuple[str, Path]]:
    """(name, path) of every spec that comes with kgen, by name. The name is the file's, without `.yaml`.

    kind: only those, "model" or "kernel"; each kind has a folder.
    """
    paths = _data("specs").glob(f"{kind}s/*.yaml" if kind else "*/*.yaml")
    yield from sorted((path.stem, path) for path in paths)


def shipped_spec(name: str) -> Path | None:
    """The shipped spec of that name, or None."""
    return dict(shipped_specs()).get(name)
