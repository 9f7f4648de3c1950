"""What a user of a kernel's library meets: exported names, the C header, the README, and the example."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from kgen.passes.kernel.pipeline import compile_kernel
from kgen.plan.kernel.runtime import refusals
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.toolchain.build import build_project
from kgen.toolchain.find import find_cxx, find_nvcc
from tests.kernels import AG_ALL, AR, COLLECTIVES, IN_NETWORK, RS, SPECS, kernel, shipped

from .test_packaging import cache_value, cmake, configure, exported, flags_of, run

# Of an element in the last row and column of each rank's output, small for all kernels of tests/kernels.py.
AG_ALL_2 = ["rank 0: element (8, 23) is 19.000000", "rank 1: element (8, 23) is 19.000000"]
RS_3_ROWS = [
    "rank 0: element (4, 23) is 15.",
    "rank 1: element (9, 23) is 15.",
    "rank 2: element (12, 23) is 9.",
]


def write(text: str, folder: Path) -> Path:
    write_tree(render_project(compile_kernel(kernel(text))), folder)
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matmul and reduce_scatter, built for the host."""
    folder = write(RS, tmp_path_factory.mktemp("kernel") / "small")
    lines: list[str] = []
    build_project(folder, "host", progress=lines.append)
    assert "warning" not in "\n".join(lines).lower()
    return folder


@pytest.fixture(scope="module")
def example(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of examples/embed, with the installed library."""
    folder = tmp_path_factory.mktemp("embed")
    cmake("--install", project / "build" / "host", "--prefix", folder / "prefix")
    installed = [path.relative_to(folder).as_posix() for path in folder.rglob("*.h*")]
    assert installed == ["prefix/include/small/small.h"]
    configure(project / "examples" / "embed", folder / "build", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}")
    cmake("--build", folder / "build")
    return folder / "build" / "embed"


def test_only_the_c_functions_are_visible(project: Path) -> None:
    header = (project / "include" / "small" / "small.h").read_text()
    declared = set(re.findall(r"^SMALL_API [^;]*?\b(small_\w+)\(", header, flags=re.MULTILINE))
    assert exported(project / "build" / "host" / "libsmall.so") == declared


def test_the_header_is_c(project: Path, tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text(
        "#include <small/small.h>\n"
        "int main(void) { small_options options = {0}; options.struct_bytes = sizeof options;\n"
        "  return small_create(&options, 0) == SMALL_OK; }\n"
    )
    cxx = find_cxx()
    assert cxx is not None
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    run(cxx.path, "-x", "c", *strict, "-I", project / "include", source)


def test_the_example_with_an_installed_library(example: Path) -> None:
    """On three ranks, of which the last has fewer rows."""
    lines = run(example, "3").splitlines()
    assert [line.startswith(start) for line, start in zip(lines, RS_3_ROWS, strict=True)] == [True] * 3
    assert len(run(example).splitlines()) == 2


@pytest.mark.parametrize("arguments", [["5"], ["two"], ["2x"], ["-1"], [""], ["2", "3"], ["--help"]])
def test_the_example_says_what_it_takes(example: Path, arguments: list[str]) -> None:
    done = subprocess.run([example, *arguments], capture_output=True, text=True, check=False)
    usage = (
        "usage: embed [RANKS]\n"
        "  RANKS: threads that run it together, 1, 2, 3, 6 "
        "[default: as many as have a GPU each; on the CPU 2]\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", usage)


def test_the_example_with_fetch_content(tmp_path: Path) -> None:
    """In a parent project options are off and no flag of the library reaches the parent's targets."""
    project, build = write(AG_ALL, tmp_path / "small"), tmp_path / "build"
    fetched = (f"-DFETCHCONTENT_SOURCE_DIR_SMALL={project}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    configure(project / "examples" / "embed", build, *fetched, "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
    assert [cache_value(build, f"SMALL_{name}") for name in ("NATIVE", "INSTALL")] == ["OFF", "OFF"]
    flags = flags_of(build, "main.cpp")
    assert not [flag for flag in ("-march", "-fvisibility", "-O3 -O3") if flag in flags]
    cmake("--build", build, "--parallel", "2")
    assert run(build / "embed", "2").splitlines() == AG_ALL_2


@pytest.mark.slow
def test_the_example_for_gpus_is_built(tmp_path: Path) -> None:
    """It says so where there is none."""
    if find_nvcc() is None:
        pytest.skip("no nvcc on this machine")
    project, build = write(RS, tmp_path / "small"), tmp_path / "build"
    configure(
        project / "examples" / "embed", build, f"-DFETCHCONTENT_SOURCE_DIR_SMALL={project}", "-DEMBED_CUDA=ON"
    )
    cmake("--build", build, "--parallel", "2")
    assert cache_value(build, "SMALL_TARGET") == "cuda"
    assert (build / "embed").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("text", [AG_ALL, AR], ids=["gather", "all reduce"])
def test_bulk_copies_compile(text: str, tmp_path: Path) -> None:
    """What pushes by registers is compiled above."""
    if find_nvcc() is None:
        pytest.skip("no nvcc on this machine")
    project = write(text.replace("outputs:", "overlap: {transfer: tma}\noutputs:"), tmp_path / "small")
    lines: list[str] = []
    build_project(project, "cuda", progress=lines.append)
    assert not [line for line in lines if "warning" in line.lower()]


@pytest.mark.slow
def test_only_a_library_that_was_asked_to_calls_multicast(tmp_path: Path) -> None:
    """Built for GPUs, and not run on any."""
    if find_nvcc() is None:
        pytest.skip("no nvcc on this machine")
    found = {}
    for name, text in (("asked", IN_NETWORK), ("not asked", COLLECTIVES["all_reduce"])):
        lines: list[str] = []
        folder = build_project(write(text, tmp_path / name / "small"), "cuda", progress=lines.append)
        assert "warning" not in "\n".join(lines).lower()
        library = (folder / "libsmall.so").read_bytes()
        assert b".nv_fatbin" in library
        found[name] = {call for call in (b"cuMulticast", b"network_all_reduce") if call in library}
    assert found == {"asked": {b"cuMulticast", b"network_all_reduce"}, "not asked": set()}


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("gemm", "c = a b^T"),
        ("ag_gemm", "c = all_gather(a) b^T"),
        ("ag_gemm_silu_mul", "c = silu(all_gather(a) gate^T) * (all_gather(a) up^T)"),
        ("gemm_rs", "d = reduce_scatter(a b^T)"),
    ],
)
def test_the_readme_says_what_is_computed(name: str, formula: str) -> None:
    text = render_project(compile_kernel(shipped(name)))["README.md"]
    assert f"    {formula}\n" in text
    assert "\n\n\n" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_every_shipped_kernel_has_a_readme_and_an_example() -> None:
    graphs = [shipped(path.stem) for path in SPECS.glob("*.yaml")]
    trees = [render_project(compile_kernel(graph)) for graph in graphs if not refusals(graph)]
    for tree in trees:
        assert {"README.md", "examples/embed/main.cpp", "examples/embed/CMakeLists.txt"} < tree.keys()
