"""Configure and build, with a project of a few lines that has the layout of a generated one."""

import ctypes
import json
import subprocess
from pathlib import Path

import pytest

from kgen.toolchain import build as building
from kgen.toolchain import find
from kgen.toolchain.build import build_project, choose_preset, failing_part, preset_folder
from kgen.toolchain.find import Tool, ToolchainError
from kgen.toolchain.gpu import Gpu

CMAKE = """\
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
add_library(small SHARED small.cpp)
"""
PRESETS = {
    "version": 6,
    "configurePresets": [
        {
            "name": "base",
            "hidden": True,
            "binaryDir": "${sourceDir}/build/${presetName}",
        },
        {"name": "host", "inherits": "base"},
        {"name": "cuda", "inherits": "base"},
    ],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(CMAKE)
    (folder / "CMakePresets.json").write_text(json.dumps(PRESETS))
    (folder / "model.json").write_text("{}")
    (folder / "small.cpp").write_text('extern "C" int answer() { return 42; }\n')
    return folder


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


def test_a_folder_configured_by_hand_keeps_its_generator(project: Path) -> None:
    configure = ["cmake", "--preset", "host", "-G", "Unix Makefiles"]
    subprocess.run(configure, cwd=project, check=True, stdout=subprocess.DEVNULL)
    folder = build_project(project, "host", jobs=1)
    assert (folder / "Makefile").is_file()
    assert (folder / "libsmall.so").is_file()


@pytest.mark.parametrize("preset", ["base", "hots"])
def test_presets_that_are_not_there_are_named(project: Path, preset: str) -> None:
    with pytest.raises(ToolchainError, match=f"no preset '{preset}', only host, cuda"):
        preset_folder(project, preset)


def test_a_folder_that_kgen_did_not_write(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="is not a generated project"):
        build_project(tmp_path, "host")


@pytest.mark.parametrize("tool", ["cmake", "ninja", "cxx", "nvcc"])
def test_a_missing_tool_is_named_with_a_remedy(
    project: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    for name in ("cmake", "ninja", "cxx", "nvcc"):
        found = None if name == tool else Tool(name, Path("/bin/true"), "", "")
        monkeypatch.setattr(building, f"find_{name}", lambda found=found: found)
    with pytest.raises(ToolchainError, match=r"was not found: .*install"):
        build_project(project, "cuda")


@pytest.mark.parametrize(
    ("gpu", "nvcc", "preset"),
    [(True, True, "cuda"), (True, False, "host"), (False, True, "host"), (False, False, "host")],
)
def test_auto_takes_cuda_where_it_can_be_built_and_run(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, nvcc: bool, preset: str
) -> None:
    monkeypatch.setattr(building, "find_gpus", lambda: [Gpu("a GPU", (9, 0), 132)] if gpu else [])
    monkeypatch.setattr(building, "find_nvcc", lambda: Tool("nvcc", Path("nvcc"), "", "") if nvcc else None)
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


def test_cxx_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "my-compiler"
    compiler.write_text("#!/bin/sh\necho my-compiler 7.8.9\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert find.find_cxx() == Tool("my-compiler", compiler, "CXX", "7.8.9")
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert find.find_cxx() is None
