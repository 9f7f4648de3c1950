"""The primitives: their host twins with ranks as threads; a GPU program compiles."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INCLUDE = ROOT / "templates" / "project" / "include"
CXX = os.environ.get("CXX", "g++")


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_primitives(sanitizer: str, tmp_path: Path) -> None:
    program = tmp_path / "primitives"
    command = [CXX, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{INCLUDE}", f"-I{HERE}"]
    command += ["-O1", "-g", f"-fsanitize={sanitizer}", str(HERE / "primitives.cpp"), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_compiles_for_a_gpu(tmp_path: Path) -> None:
    command = ["nvcc", "-std=c++20", "-DPK_CUDA=1", "-gencode=arch=compute_90a,code=sm_90a"]
    command += ["-Xcompiler", "-Wall,-Wextra,-Werror", "-Werror", "all-warnings", f"-I{INCLUDE}", f"-I{HERE}"]
    source = ROOT / "tests" / "gpu" / "primitives.cu"
    done = subprocess.run(
        [*command, str(source), "-o", str(tmp_path / "primitives")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
