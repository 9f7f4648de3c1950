"""Registers and spills of the worker: what is read from ptxas, kept beside the library and shown."""

import os
from pathlib import Path

import pytest

from kgen.frontend.build import build_graph
from kgen.passes.pipeline import compile_graph
from kgen.paths import shipped_specs
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.spec.load import load_spec
from kgen.toolchain.build import build_project
from kgen.toolchain.cuda_wheels import GET_WHEELS
from kgen.toolchain.find import find_nvcc
from kgen.toolchain.kernel_report import KernelReport, compile_seconds, parse_ptxas, read_report, save_report

WORKER = "_ZN3mpk6engine11run_workersIN9generated4tiny7ProgramEEEvNS_7MachineE"
TWO_CHIPS = f"""\
[1/2] Building CUDA object CMakeFiles/tiny_read_ceiling.dir/bench/read_ceiling.cu.o
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4readPKh' for 'sm_80'
ptxas info    : Function properties for _Z4readPKh
    512 bytes stack frame, 300 bytes spill stores, 400 bytes spill loads
ptxas info    : Used 48 registers, used 0 barriers, 376 bytes cmem[0]
[2/2] Building CUDA object CMakeFiles/tiny.dir/src/api.cpp.o
ptxas info    : Compiling entry function '{WORKER}' for 'sm_80'
ptxas info    : Function properties for {WORKER}
    32 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 126 registers, used 1 barriers, 32 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 1089.764 ms
ptxas info    : Compiling entry function '{WORKER}' for 'sm_90a'
ptxas info    : Function properties for {WORKER}
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Function properties for _ZN3mpk4helpEv
    64 bytes stack frame, 20 bytes spill stores, 12 bytes spill loads
""".splitlines()
NINJA_LOG = """\
# ninja log v7
1\t24\t1795984859667118844\tCMakeFiles/tiny.dir/src/plan.cpp.o\tf447e6dbc131dbd2
1\t7661\t1795984859663199322\tCMakeFiles/tiny.dir/src/api.cpp.o\tcd4b5faa43a277c0
7661\t7717\t1795984867324152260\tlibtiny.so.1.0.0\t90533f6e8dd6ad74
100\t9350\t1795984869663199322\tCMakeFiles/tiny.dir/src/api.cpp.o\tcd4b5faa43a277c0
"""


def test_only_the_worker_and_what_it_may_call_count() -> None:
    assert parse_ptxas(TWO_CHIPS) == (
        KernelReport("sm_80", registers=126, stack=32, spill_stores=0, spill_loads=0),
        KernelReport("sm_90a", registers=255, stack=80, spill_stores=24, spill_loads=20),
    )
    assert parse_ptxas(TWO_CHIPS[:6]) == ()


def test_what_a_build_shows_and_keeps(tmp_path: Path) -> None:
    assert read_report(tmp_path) is None
    save_report(tmp_path, ["ninja: no work to do."])
    assert read_report(tmp_path) is None
    save_report(tmp_path, TWO_CHIPS)
    report = read_report(tmp_path)
    assert report is not None
    assert report.seconds is None
    (tmp_path / ".ninja_log").write_text(NINJA_LOG)
    save_report(tmp_path, TWO_CHIPS)
    save_report(tmp_path, ["ninja: no work to do."])  # the kernel is still the one of the build before
    report = read_report(tmp_path)
    assert report is not None
    assert report.lines() == [
        "run_workers: 126 registers, 0 bytes spilled (sm_80)",
        "run_workers: 255 registers, 24 bytes spilled (sm_90a)",
        "nvcc took 9.2 s",
    ]
    assert compile_seconds(tmp_path) == 9.25


def test_a_kernel_compiled_since_is_unknown(tmp_path: Path) -> None:
    save_report(tmp_path, TWO_CHIPS)
    compiled = tmp_path / "CMakeFiles" / "tiny.dir" / "src" / "api.cpp.o"
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    os.utime(compiled, (0, 0))
    assert read_report(tmp_path) is not None
    os.utime(compiled)
    os.utime(tmp_path / "kernel.json", (0, 0))
    assert read_report(tmp_path) is None


CLUSTER_KERNELS = {"run_clusters, 16 rows", "run_clusters, 8 rows", "run_clusters, 1 row", "run_prefill"}


@pytest.mark.parametrize(
    ("spec", "names"), [("tiny", {"run_workers"}), ("tiny-decoder", {"run_workers"} | CLUSTER_KERNELS)]
)
def test_the_workers_spill_nothing(
    spec: str, names: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_nvcc() is None:
        pytest.skip(f"there is no nvcc here: {GET_WHEELS}")
    monkeypatch.setenv("CUDAARCHS", "90a-real")
    path = dict(shipped_specs())[spec]
    write_tree(render_project(compile_graph(build_graph(load_spec(path)))), tmp_path / "project")
    report = read_report(build_project(tmp_path / "project", "cuda"))
    assert report is not None
    assert {kernel.name for kernel in report.kernels} == names
    for kernel in report.kernels:
        assert kernel.chip == "sm_90a"
        assert (kernel.spill_stores, kernel.spill_loads) == (0, 0)
        assert 0 < kernel.registers <= 255
    assert report.seconds is not None
    assert 0 < report.seconds < 90
