"""Which tools a build folder is configured with, and when it is configured anew."""

import subprocess
from pathlib import Path

import pytest

from kgen.toolchain import configure
from kgen.toolchain.build import build_project
from kgen.toolchain.configure import architectures_of, configure_command, read_cache
from kgen.toolchain.find import Tool, ToolchainError, find_cxx
from kgen.toolchain.gpu import Gpu


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CXX", "CUDACXX", "CUDAARCHS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(configure, "find_gpus", list)


def is_fresh(project: Path) -> bool:
    return "--fresh" in configure_command(project, "host", project / "build" / "host")


def test_a_new_folder_gets_the_tools(project: Path) -> None:
    command = configure_command(project, "host", project / "build" / "host")
    cxx = find_cxx()
    assert cxx is not None
    assert command[1:6] == ["--preset", "host", "--fresh", "-G", "Ninja"]
    assert f"-DCMAKE_CXX_COMPILER={cxx.path}" in command


def test_a_configured_folder_is_kept(project: Path) -> None:
    build_project(project, "host", jobs=1)
    assert not is_fresh(project)


def test_a_folder_configured_by_hand_keeps_what_was_chosen(project: Path) -> None:
    by_hand = ["cmake", "--preset", "host", "-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Debug"]
    subprocess.run(by_hand, cwd=project, check=True, stdout=subprocess.DEVNULL)
    folder = build_project(project, "host", jobs=1)
    assert (folder / "Makefile").is_file()
    assert (folder / "libsmall.so").is_file()
    assert read_cache(folder)["CMAKE_BUILD_TYPE"] == "Debug"


def test_a_moved_project_is_configured_anew(project: Path) -> None:
    build_project(project, "host", jobs=1)
    moved = project.rename(project.parent / "moved")
    assert is_fresh(moved)
    assert (build_project(moved, "host", jobs=1) / "libsmall.so").is_file()


def test_another_compiler_configures_anew(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cxx = find_cxx()
    assert cxx is not None
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nexec {cxx.path} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrapper))
    build_project(project, "host", jobs=1)
    assert not is_fresh(project)
    monkeypatch.setenv("CXX", str(cxx.path))
    assert is_fresh(project)
    monkeypatch.delenv("CXX")
    assert not is_fresh(project)
    wrapper.unlink()
    assert is_fresh(project)


@pytest.mark.parametrize("tool", ["cmake", "ninja", "cxx", "nvcc"])
def test_a_missing_tool_is_named_with_a_remedy(
    project: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    for name in ("cmake", "ninja", "cxx", "nvcc"):
        found = None if name == tool else Tool(name, Path("/bin/true"), "", "13.0")
        monkeypatch.setattr(configure, f"find_{name}", lambda found=found: found)
    with pytest.raises(ToolchainError, match=r"was not found: .*install"):
        configure_command(project, "cuda", project / "build" / "cuda")


def test_an_old_nvcc_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configure, "find_nvcc", lambda: Tool("nvcc", Path("/opt/nvcc"), "PATH", "11.8.89"))
    with pytest.raises(ToolchainError, match=r"/opt/nvcc is CUDA 11.8.89, which is too old"):
        configure_command(project, "cuda", project / "build" / "cuda")


@pytest.mark.parametrize(
    ("capabilities", "architectures"),
    [
        ([], ""),
        ([(9, 0)] * 8, "90a-real"),
        ([(10, 0), (8, 0)], "80-real;100a-real"),
        ([(12, 0), (7, 5)], "120a-real"),
        ([(8, 9)], "89-real"),
    ],
)
def test_architectures(capabilities: list[tuple[int, int]], architectures: str) -> None:
    assert architectures_of([Gpu("a GPU", capability, 1) for capability in capabilities]) == architectures


def test_cuda_is_compiled_for_the_gpus_that_are_here(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project / "build" / "cuda"
    monkeypatch.setattr(configure, "find_nvcc", lambda: Tool("nvcc", Path("/opt/nvcc"), "PATH", "13.0.88"))
    assert not [part for part in configure_command(project, "cuda", folder) if "ARCHITECTURES" in str(part)]
    monkeypatch.setattr(configure, "find_gpus", lambda: [Gpu("A100", (8, 0), 108)])
    assert configure_command(project, "cuda", folder)[-1] == "-DCMAKE_CUDA_ARCHITECTURES=80-real"
    monkeypatch.setenv("CUDAARCHS", "90a-real;120a-real")
    assert configure_command(project, "cuda", folder)[-1] == "-DCMAKE_CUDA_ARCHITECTURES=90a-real;120a-real"
    assert not [part for part in configure_command(project, "host", folder) if "ARCHITECTURES" in str(part)]
