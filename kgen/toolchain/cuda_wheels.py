"""A CUDA toolkit from NVIDIA's compiler wheels, laid out as build tools expect it.

The wheels leave out what a system toolkit has: `lib64`, and `libcudart.so` beside `libcudart.so.13`.
nvcc finds its parts from the path it was called by, so a folder of links in the usual layout is a complete
toolkit. Files are linked one by one because the parts may come from several folders.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sysconfig
import tempfile
from pathlib import Path

# CUDA 13 wheels share one folder; CUDA 12 wheels have one each.
_SHARED = ("cu13",)
_SEPARATE = ("cuda_nvcc", "cuda_crt", "nvvm", "cuda_runtime", "cuda_cccl")
_COMPLETE = ("bin/nvcc", "bin/ptxas", "nvvm/bin/cicc", "include/cuda_runtime.h", "lib/libcudart_static.a")
_PARTS = ("bin", "include", "lib", "nvvm")
# What to do to have the wheels. kgen is not on PyPI, where its name belongs to another package.
GET_WHEELS = "in kgen's checkout, .venv/bin/pip install -e '.[cuda]'"
ORIGIN = "CUDA wheels"  # of a tool found in them


def provide_root(site: Path | None = None, cache: Path | None = None) -> Path | None:
    """The root of a toolkit made from the wheels in `site` (this Python's packages), None where they are not.

    It is kept in `cache` (kgen's folder in the user's cache) under a name made from the wheels' files, so
    that another version or another environment gets another root.
    """
    site = site or Path(sysconfig.get_path("purelib"))
    sources = _sources(site / "nvidia")
    if sources is None:
        return None
    files = _files(sources)
    root = (cache or cache_folder()) / f"cuda-{_key(files)}"
    if not root.is_dir():
        _make(root, files)
    return root


def cache_folder() -> Path:
    """kgen's folder in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kgen"


def _sources(nvidia: Path) -> list[Path] | None:
    for names in (_SHARED, _SEPARATE):
        folders = [nvidia / name for name in names if (nvidia / name).is_dir()]
        if folders and all(any((folder / part).exists() for folder in folders) for part in _COMPLETE):
            return folders
    return None


def _files(sources: list[Path]) -> dict[str, Path]:
    """Path in the toolkit -> file of a wheel."""
    files: dict[str, Path] = {}
    for source in sources:
        for part in _PARTS:
            for folder, _, names in os.walk(source / part):
                for name in names:
                    file = Path(folder) / name
                    files.setdefault(file.relative_to(source).as_posix(), file)
    for relative, file in sorted(files.items()):
        # The linker asks for libcudart.so; a wheel only has the name the loader asks for.
        plain, dot, _ = relative.partition(".so.")
        if dot and relative.startswith("lib/"):
            files.setdefault(f"{plain}.so", file)
    return files


def _key(files: dict[str, Path]) -> str:
    state = hashlib.sha256()
    for relative, file in sorted(files.items()):
        state.update(f"{relative}\0{file}\0{file.stat().st_size}\n".encode())
    return state.hexdigest()[:16]


def _make(root: Path, files: dict[str, Path]) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{root.name}.", dir=root.parent))
    try:
        for relative, file in files.items():
            link = stage / relative
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
        (stage / "lib64").symlink_to("lib")
        stage.chmod(0o755)
        try:
            stage.rename(root)
        except OSError:
            # Another process was quicker; its root has the same links.
            if not root.is_dir():
                raise
    finally:
        shutil.rmtree(stage, ignore_errors=True)
