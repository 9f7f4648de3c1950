"""The C++ header library: each task against a reference in double, the event protocol, every GPU target."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "templates" / "project" / "include"
CXX = os.environ.get("CXX", "g++")


def compile_host(source: str, out: Path, *flags: str) -> None:
    command = [CXX, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{INCLUDE}", f"-I{HERE}"]
    command += [*flags, str(HERE / source), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def run(program: Path, *arguments: str) -> None:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=600)
    failures = [line for line in done.stdout.splitlines() if not line.startswith("PASS")]
    assert done.returncode == 0, "\n".join(failures) + done.stderr
    assert failures[-1].endswith(" passed, 0 failed")


# The widest vectors of this machine, and the least that any has: the code paths differ.
@pytest.mark.parametrize("flags", [["-O2", "-march=native"], ["-O1", "-fsanitize=address,undefined"]])
def test_tasks(tmp_path: Path, flags: list[str]) -> None:
    compile_host("tasks.cpp", tmp_path / "tasks", *flags)
    run(tmp_path / "tasks")


def test_protocol(tmp_path: Path) -> None:
    compile_host("protocol.cpp", tmp_path / "protocol", "-O2")
    run(tmp_path / "protocol", "3000")


def test_protocol_has_no_data_race(tmp_path: Path) -> None:
    compile_host("protocol.cpp", tmp_path / "protocol", "-O1", "-g", "-fsanitize=thread")
    run(tmp_path / "protocol", "300")


@pytest.mark.parametrize("flags", [["-DPK_TIMELINE=1", "-fsanitize=address,undefined"], []])
def test_timeline(tmp_path: Path, flags: list[str]) -> None:
    compile_host("timeline.cpp", tmp_path / "timeline", "-O1", *flags)
    run(tmp_path / "timeline")


def test_cluster(tmp_path: Path) -> None:
    compile_host("cluster.cpp", tmp_path / "cluster", "-O1", "-fsanitize=address,undefined")
    run(tmp_path / "cluster")


@pytest.mark.parametrize("program", ["narrow_plan", "deal"])
def test_how_work_is_dealt(program: str, tmp_path: Path) -> None:
    compile_host(f"{program}.cpp", tmp_path / program, "-O1", "-fsanitize=address,undefined")
    run(tmp_path / program)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize(("arch", "timeline"), [("80", 0), ("90a", 0), ("90a", 1), ("100a", 0), ("120a", 0)])
def test_compiles_for(arch: str, timeline: int, tmp_path: Path) -> None:
    command = ["nvcc", "-std=c++20", "-DPK_CUDA=1", f"-gencode=arch=compute_{arch},code=sm_{arch}"]
    command += [f"-DPK_TIMELINE={timeline}"]
    command += ["-Xcompiler", "-Wall,-Wextra,-Werror", "-Werror", "all-warnings", f"-I{INCLUDE}", "-c"]
    done = subprocess.run(
        [*command, str(HERE / "program.cu"), "-o", str(tmp_path / "program.o")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_collectives_compile(tmp_path: Path) -> None:
    command = [
        "nvcc",
        "-std=c++20",
        "-DPK_CUDA=1",
        "-gencode=arch=compute_90a,code=sm_90a",
        f"-I{INCLUDE}",
        "-c",
    ]
    command += ["-Xcompiler", "-Wall,-Wextra,-Werror", "-Werror", "all-warnings"]
    done = subprocess.run(
        [*command, str(HERE / "collectives.cu"), "-o", str(tmp_path / "collectives.o")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_overlapped_kernel_is_not_compiled_to_nothing(tmp_path: Path) -> None:
    """For sm_90 without its `a` there are none of its instructions: an empty kernel would report success."""
    source = tmp_path / "kernel.cu"
    source.write_text('#include "pk/lcsc/kernel.hpp"\n')
    for arch, wanted in (("90", "this kernel is for sm_90a"), ("90a", "")):
        command = ["nvcc", "-std=c++20", "-DPK_CUDA=1", f"-gencode=arch=compute_{arch},code=sm_{arch}"]
        command += [f"-I{INCLUDE}", "-c", str(source), "-o", str(tmp_path / "kernel.o")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert (done.returncode != 0, wanted in done.stderr) == (wanted != "", True), done.stderr
