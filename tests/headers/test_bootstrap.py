"""How ranks find each other and share memory, as threads and processes; a GPU program compiles."""

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


def compile_host(out: Path, *flags: str) -> None:
    command = [CXX, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{INCLUDE}", f"-I{HERE}"]
    command += ["-O1", "-g", *flags, str(HERE / "bootstrap.cpp"), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def run(program: Path, *arguments: str) -> None:
    # What a launcher of the tests themselves would say.
    names = ("RANK", "WORLD_SIZE", "OMPI_", "PMI", "SLURM_", "MASTER_", "TORCHELASTIC_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=300, env=environment
    )
    failures = [line for line in done.stdout.splitlines() if not line.startswith("PASS")]
    assert done.returncode == 0, "\n".join(failures) + done.stderr
    assert failures[-1].endswith(" passed, 0 failed")


def test_bootstrap(tmp_path: Path) -> None:
    compile_host(tmp_path / "bootstrap", "-fsanitize=address,undefined")
    run(tmp_path / "bootstrap")


def test_threads_have_no_data_race(tmp_path: Path) -> None:
    compile_host(tmp_path / "bootstrap", "-fsanitize=thread")
    run(tmp_path / "bootstrap", "threads")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_compiles_for_a_gpu(tmp_path: Path) -> None:
    command = ["nvcc", "-std=c++20", "-DPK_CUDA=1", "-gencode=arch=compute_90a,code=sm_90a"]
    command += ["-Xcompiler", "-Wall,-Wextra,-Werror", "-Werror", "all-warnings", f"-I{INCLUDE}", f"-I{HERE}"]
    source = ROOT / "tests" / "gpu" / "peer_memory.cu"
    done = subprocess.run(
        [*command, str(source), "-o", str(tmp_path / "peer_memory")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    needed = subprocess.run(
        ["ldd", str(tmp_path / "peer_memory")], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert "libcuda" not in needed  # neither the driver nor the runtime, which is linked in
