"""Where the compilers and build tools are on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kgen.toolchain.cuda_wheels import ORIGIN, provide_root

_VERSION = re.compile(r"\d+\.\d+(\.\d+)*")
_CUDA_RELEASE = re.compile(r"release \d+\.\d+, V([\d.]+)")
_SYSTEM_CUDA = Path("/usr/local/cuda/bin/nvcc")
_QUESTION_SECONDS = 30
OLDEST_CUDA = (12, 8)  # the first nvcc that knows sm_100a and sm_120a


class ToolchainError(Exception):
    """A tool is missing or failed; the message says what and what to do about it."""


@dataclass(frozen=True, slots=True)
class Tool:
    """An executable, how it was found, and its version ("" when it does not say)."""

    name: str
    path: Path
    origin: str
    version: str


def find_cxx() -> Tool | None:
    """The host C++ compiler: $CXX, else g++, clang++ or c++ on the path."""
    chosen = os.environ.get("CXX", "").split()
    if chosen:
        return _on_path(chosen[0], "CXX")
    return next(filter(None, (_on_path(name, "PATH") for name in ("g++", "clang++", "c++"))), None)


def find_cmake() -> Tool | None:
    """CMake: the one installed with kgen, else the first on the path."""
    return _installed_with_python("cmake")


def find_ninja() -> Tool | None:
    """Ninja: the one installed with kgen, else the first on the path."""
    return _installed_with_python("ninja")


def find_nvcc() -> Tool | None:
    """nvcc: $CUDACXX; else the first that is recent enough, or else the first, of those on the path, in
    /usr/local/cuda and in the wheels of the extra `cuda`.

    For the wheels a folder in CUDA's usual layout is made in the user's cache when it is not there yet.
    Raises ToolchainError when the cache cannot be written.
    """
    chosen = os.environ.get("CUDACXX")
    if chosen:
        return _on_path(chosen, "CUDACXX")
    first = None
    for tool in _nvcc_candidates():
        if is_recent_nvcc(tool):
            return tool
        first = first or tool
    return first


def is_recent_nvcc(nvcc: Tool) -> bool:
    """Whether it knows every chip that projects are compiled for."""
    return tuple(int(part) for part in nvcc.version.split(".")[:2] if part) >= OLDEST_CUDA


def _nvcc_candidates() -> Iterator[Tool]:
    yield from filter(None, (_on_path("nvcc", "PATH"), _on_path(str(_SYSTEM_CUDA), "system")))
    # Asked last, and only when needed: it may have a folder to make.
    yield from filter(None, (_wheel_nvcc(),))


def _wheel_nvcc() -> Tool | None:
    try:
        root = provide_root()
    except OSError as error:
        raise ToolchainError(
            f"cannot lay out the CUDA compiler of the wheels in {error.filename}: {error.strerror}; "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return _on_path(str(root / "bin" / "nvcc"), ORIGIN) if root else None


def _installed_with_python(name: str) -> Tool | None:
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        if (folder / name).is_file():
            return _on_path(str(folder / name), "installed with kgen")
    return _on_path(name, "PATH")


def _on_path(name: str, origin: str) -> Tool | None:
    path = shutil.which(name)
    return Tool(Path(name).name, Path(path).absolute(), origin, _version(path)) if path else None


def _version(path: str) -> str:
    """The version in the first line of `--version` that has one; nvcc prints years before its release."""
    try:
        result = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_QUESTION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    release = _CUDA_RELEASE.search(result.stdout)
    if release:
        return release[1]
    found = _VERSION.search(result.stdout)
    return found[0] if found else ""
