"""The primitives: their host twins with ranks as threads; a GPU program compiles."""

from __future__ import annotations

import os
import re
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
    source = ROOT / "tests" / "gpu" / "primitives.cu"  # without what adds in the network: that is never run
    done = subprocess.run(
        [*command, str(source), "-o", str(tmp_path / "primitives")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_what_adds_in_the_network_is_what_ptx_says(tmp_path: Path) -> None:
    """Four pieces on their way before the first is stored; fences between the two addresses of the memory."""
    command = ["nvcc", "-std=c++20", "-O3", "-DPK_CUDA=1", "-gencode=arch=compute_90a,code=sm_90a"]
    command += ["-Xcompiler", "-Wall,-Wextra,-Werror", "-Werror", "all-warnings", f"-I{INCLUDE}"]
    source = HERE / "network.cu"
    for flags, out in (("-c", "network.o"), ("-ptx", "network.ptx")):
        done = subprocess.run(
            [*command, flags, str(source), "-o", str(tmp_path / out)],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
    entries = (tmp_path / "network.ptx").read_text().split(".entry ")[1:]
    kernels = [entry for entry in entries if "network_all_reduce" in entry.split("(")[0]]
    assert len(kernels) == 2
    for kernel in kernels:
        type_ = "bf16x2" if "OfBf16" in kernel.split("(")[0] else "f16x2"
        found = re.findall(r"^\s*((?:multimem|fence\.proxy)\S*)", kernel, re.MULTILINE)
        add = f"multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.{type_}"
        store = f"multimem.st.relaxed.sys.global.v4.{type_}"
        fence = "fence.proxy.alias;"
        assert found == [fence, *[add] * 4, *[store] * 4, add, store, fence]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs the headers of CUDA")
def test_multicast_objects_come_and_go_in_the_order_that_cuda_wants(tmp_path: Path) -> None:
    """By a driver that only keeps books."""
    program = tmp_path / "multicast"
    command = ["nvcc", "-std=c++20", "-O1", "-cudart", "none", f"-I{INCLUDE}", f"-I{HERE}"]
    command += ["-Xcompiler", "-Wall,-Wextra,-Werror,-pthread,-fsanitize=address,-fsanitize=undefined"]
    built = subprocess.run(
        [*command, str(HERE / "multicast.cpp"), "-o", str(program)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
