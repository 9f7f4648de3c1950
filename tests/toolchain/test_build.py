"""Configure and build, with a project of a few lines that has the layout of a generated one."""

import ctypes
from pathlib import Path

import pytest

from kgen.toolchain import build as building
from kgen.toolchain.build import (
    build_project,
    choose_preset,
    failing_part,
    preset_folder,
    read_model,
    read_project,
)
from kgen.toolchain.find import Tool, ToolchainError
from kgen.toolchain.gpu import Gpu


def test_builds_into_the_folder_of_the_preset(project: Path) -> None:
    lines: list[str] = []
    folder = build_project(project, "host", jobs=1, progress=lines.append)
    assert folder == project / "build" / "host"
    assert ctypes.CDLL(str(folder / "libsmall.so")).answer() == 42
    assert any("Linking CXX shared library libsmall.so" in line for line in lines)


def test_a_failing_compilation_is_shown(project: Path) -> None:
    (project / "small.cpp").write_text("int answer() { return unheard_of; }\n")
    with pytest.raises(ToolchainError) as caught:
        build_project(project, "host", jobs=1)
    assert "unheard_of" in str(caught.value)
    assert "failed with exit code" in str(caught.value)


def test_a_failing_configuration_is_shown(project: Path) -> None:
    (project / "CMakeLists.txt").write_text("project(\n")
    with pytest.raises(ToolchainError, match="CMake Error"):
        build_project(project, "host")


@pytest.mark.parametrize("preset", ["base", "hots"])
def test_presets_that_are_not_there_are_named(project: Path, preset: str) -> None:
    with pytest.raises(ToolchainError, match=f"no preset '{preset}', only host, cuda"):
        preset_folder(project, preset)


def test_a_folder_that_kgen_did_not_write(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="is not a generated project"):
        build_project(tmp_path, "host")


def test_the_project_of_a_kernel(project: Path) -> None:
    (project / "model.json").rename(project / "kernel.json")
    (project / "kernel.json").write_text('{"name": "small"}')
    assert (build_project(project, "host", jobs=1) / "libsmall.so").is_file()
    assert read_project(project) == {"name": "small"}
    with pytest.raises(ToolchainError, match="is the project of a kernel, and this is for models"):
        read_model(project)


@pytest.mark.parametrize(
    ("capability", "nvcc", "preset"),
    [
        ((9, 0), "13.0.88", "cuda"),
        ((8, 0), "12.8", "cuda"),
        ((7, 5), "13.0.88", "host"),
        ((9, 0), "12.7", "host"),
        ((9, 0), None, "host"),
        (None, "13.0.88", "host"),
    ],
)
def test_auto_takes_cuda_where_it_can_be_built_and_run(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int] | None, nvcc: str | None, preset: str
) -> None:
    gpus = [Gpu("a GPU", capability, 132)] if capability else []
    monkeypatch.setattr(building, "find_gpus", lambda: gpus)
    monkeypatch.setattr(building, "find_nvcc", lambda: Tool("nvcc", Path("nvcc"), "", nvcc) if nvcc else None)
    assert choose_preset("auto") == preset
    assert choose_preset("host-tsan") == "host-tsan"


@pytest.mark.parametrize(
    "error",
    [
        "a.cpp:1:2: error: expected ';'",
        "a.cpp:1:10: fatal error: none.hpp: No such file or directory",
        "a.hpp(24): error: calling a constexpr function",
        "ptxas error   : Entry function uses too much shared data",
        "a.cpp:(.text+0x1): undefined reference to `f'",
        "CMake Error at CMakeLists.txt:1 (project):",
        "ninja: error: loading 'build.ninja': No such file or directory",
    ],
)
def test_of_a_long_failure_the_first_error_is_shown(error: str) -> None:
    noise = [f"[{i}/90] Building error_test.cpp.o" for i in range(80)] + ["a.cpp(3): warning #1: w"] * 50
    shown = failing_part([*noise, error, *noise])
    assert (shown[0], len(shown)) == (error, 40)


def test_of_a_failure_without_a_mark_the_end_is_shown() -> None:
    assert failing_part([str(i) for i in range(100)]) == [str(i) for i in range(60, 100)]
