"""Where the compilers and build tools are on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from kgen.toolchain.cuda_wheels import provide_root

_VERSION = re.compile(r"\d+\.\d+(\.\d+)*")
_CUDA_RELEASE = re.compile(r"release \d+\.\d+, V([\d.]+)")
_SYSTEM_CUDA = Path("/usr/local/cuda/bin/nvcc")
_QUESTION_SECONDS = 30


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
    """nvcc: $CUDACXX, the path, /usr/local/cuda, else the wheels of `pip install kgen[cuda]`.

    For the wheels a folder in CUDA's usual layout is made in the user's cache when it is not there yet.
    """
    chosen = os.environ.get("CUDACXX")
    if chosen:
        return _on_path(chosen, "CUDACXX")
    found = _on_path("nvcc", "PATH") or _on_path(str(_SYSTEM_CUDA), "system")
    if found:
        return found
    root = provide_root()
    return _on_path(str(root / "bin" / "nvcc"), "kgen[cuda] wheels") if root else None


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
