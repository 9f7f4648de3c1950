"""Every spec that comes with kgen makes a project that compiles without a warning."""

import subprocess
from functools import cache
from pathlib import Path

import pytest

from kgen.frontend.build import build_graph
from kgen.frontend.check import load_kernel
from kgen.passes.kernel.pipeline import compile_kernel
from kgen.passes.pipeline import compile_graph
from kgen.paths import shipped_specs
from kgen.plan.kernel.runtime import refusals
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.spec.load import load_spec
from kgen.toolchain.cuda_wheels import GET_WHEELS
from kgen.toolchain.find import find_cxx, find_nvcc

SPECS = dict(shipped_specs("model"))
# Those that the runtime has.
KERNELS = {name: path for name, path in shipped_specs("kernel") if not refusals(load_kernel(path)[1])}
EXPECTED = {
    "llama-3.1-8b",
    "llama-3.2-1b",
    "qwen2.5-0.5b",
    "qwen3-0.6b",
    "qwen3-1.7b",
    "qwen3-8b",
    "smollm2-135m",
    "tiny",
    "tiny-decoder",
}
# The cluster worker is for Hopper alone; a model that it can run must compile for other chips too.
CHIPS = [(spec, chip) for spec in ("tiny", "tiny-decoder") for chip in ("80", "90a", "100a", "120a")]


@cache
def tree_of(spec: str) -> dict[str, str]:
    return render_project(compile_graph(build_graph(load_spec(SPECS[spec]))))


def test_the_promised_specs_are_there() -> None:
    assert set(SPECS) >= EXPECTED


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_compiles_for_the_host(name: str, tmp_path: Path) -> None:
    cxx = find_cxx()
    assert cxx is not None
    write_tree(render_project(compile_kernel(load_kernel(KERNELS[name])[1])), tmp_path / "project")
    flags = ["-std=c++20", "-O0", "-fPIC", "-Wall", "-Wextra", "-Wno-psabi", "-Iinclude", "-Isrc"]
    command = [cxx.path, *flags, "-c", "src/api.cpp", "-o", "api.o"]
    done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("spec", SPECS)
def test_compiles_for_the_host(spec: str, tmp_path: Path) -> None:
    cxx = find_cxx()
    assert cxx is not None
    write_tree(tree_of(spec), tmp_path / "project")
    flags = ["-std=c++20", "-O0", "-fPIC", "-Wall", "-Wextra", "-Wno-psabi", "-Iinclude", "-Isrc"]
    for source in ("api", "plan"):
        command = [cxx.path, *flags, "-c", f"src/{source}.cpp", "-o", f"{source}.o"]
        done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("spec", "chip"), CHIPS)
def test_small_models_compile_for_every_chip(spec: str, chip: str, tmp_path: Path) -> None:
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip(f"there is no nvcc here: {GET_WHEELS}")
    write_tree(tree_of(spec), tmp_path / "project")
    code = f"-gencode=arch=compute_{chip},code=sm_{chip}"
    flags = ["-std=c++20", "-O1", "-DPK_CUDA=1", "-Xcompiler=-fPIC,-Wall,-Wextra", "-Iinclude", "-Isrc"]
    command = [nvcc.path, *flags, code, "-x", "cu", "-c", "src/api.cpp", "-o", "api.o"]
    done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
