"""What a user of the library meets: exported names, the C header, installation, FetchContent."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from kgen.toolchain.build import build_project
from kgen.toolchain.find import find_cmake, find_cxx, find_ninja, find_nvcc

from .conftest import load_module

PROMPT = [5, 17, 3]


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cmake(*arguments: str | Path) -> str:
    tool = find_cmake()
    assert tool is not None
    return run(tool.path, *arguments)


def configure(source: Path, build: Path, *definitions: str) -> None:
    ninja = find_ninja()
    assert ninja is not None
    cmake("-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja.path}", *definitions)


def declared(project: Path) -> set[str]:
    """The functions of the C header."""
    header = (project / "include" / "tiny" / "tiny.h").read_text()
    return set(re.findall(r"^TINY_API [^;]*?\b(tiny_\w+)\(", header, flags=re.MULTILINE))


def exported(library: Path) -> set[str]:
    """Every symbol that the dynamic linker sees."""
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines}


def test_only_the_c_functions_are_visible(project: Path, host_build: tuple[Path, str]) -> None:
    assert len(declared(project)) == 12
    assert exported(host_build[0]) == declared(project)


def test_the_build_has_no_warnings(host_build: tuple[Path, str]) -> None:
    assert "warning" not in host_build[1].lower(), host_build[1]


def test_the_header_is_c(project: Path, tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text(
        "#include <tiny/tiny.h>\n"
        "int main(void) { tiny_options options = {0}; options.struct_bytes = sizeof options;\n"
        "  return tiny_create(&options, 0) == TINY_OK; }\n"
    )
    cxx = find_cxx()
    assert cxx is not None
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    run(cxx.path, "-x", "c", *strict, "-I", project / "include", source)


@pytest.fixture(scope="module")
def expected_tokens(project: Path, host_build: tuple[Path, str], weights: Path) -> list[int]:
    """What the example has to print."""
    binding = load_module(project / "python" / "tiny.py")
    with binding.Model(weights, library=host_build[0]) as model:
        (result,) = model.generate([PROMPT], max_new_tokens=16)
        tokens: list[int] = result.tokens.tolist()
        return tokens


def output_of_example(build: Path, weights: Path) -> list[int]:
    cmake("--build", build, "--parallel", "2")
    out = run(build / "embed", weights, *map(str, PROMPT))
    return [int(line) for line in out.split()]


def cache_value(build: Path, name: str) -> str:
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), flags=re.MULTILINE)
    return found[1] if found else ""


def flags_of(build: Path, source: str) -> str:
    commands = json.loads((build / "compile_commands.json").read_text())
    (command,) = (entry["command"] for entry in commands if entry["file"].endswith(source))
    return str(command).partition(" -o ")[0]


def test_find_package(
    project: Path, host_build: tuple[Path, str], weights: Path, expected_tokens: list[int], tmp_path: Path
) -> None:
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    cmake("--install", host_build[0].parent, "--prefix", prefix)
    installed = sorted(path.relative_to(prefix).as_posix() for path in prefix.rglob("*.h*"))
    assert installed == ["include/tiny/tiny.h"]
    example = tmp_path / "example"
    run("cp", "-r", project / "examples" / "embed", example)
    configure(example, build, f"-DCMAKE_PREFIX_PATH={prefix}")
    assert output_of_example(build, weights) == expected_tokens


def test_fetch_content(project: Path, weights: Path, expected_tokens: list[int], tmp_path: Path) -> None:
    """In a parent project options are off and no flag of the library reaches the parent's targets."""
    build = tmp_path / "build"
    example = tmp_path / "example"
    run("cp", "-r", project / "examples" / "embed", example)
    configure(
        example, build, f"-DFETCHCONTENT_SOURCE_DIR_TINY={project}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    )
    assert cache_value(build, "TINY_NATIVE") == "OFF"
    assert cache_value(build, "TINY_INSTALL") == "OFF"
    flags = flags_of(build, "main.cpp")
    for flag in ("-march", "-Wall", "-fvisibility"):
        assert flag not in flags
    # Without vectors of this machine additions come in another order, so the last bits may differ, but with
    # these weights no two logits are that close.
    assert output_of_example(build, weights) == expected_tokens


def test_a_parent_without_a_build_type(project: Path, tmp_path: Path) -> None:
    """The library is optimized all the same, and the parent is left as it was."""
    parent, build = tmp_path / "parent", tmp_path / "build"
    parent.mkdir()
    (parent / "main.cpp").write_text("int main() { return 0; }\n")
    (parent / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(parent LANGUAGES CXX)\n"
        f"add_subdirectory({project} tiny)\nadd_executable(parent main.cpp)\n"
        "target_link_libraries(parent PRIVATE tiny::tiny)\n"
    )
    configure(parent, build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    assert cache_value(build, "CMAKE_BUILD_TYPE") == ""
    assert "-O3" in flags_of(build, "api.cpp")
    assert "-O" not in flags_of(build, "main.cpp")


def test_the_example_says_what_is_wrong(project: Path, host_build: tuple[Path, str], tmp_path: Path) -> None:
    build = tmp_path / "build"
    prefix = tmp_path / "prefix"
    cmake("--install", host_build[0].parent, "--prefix", prefix)
    configure(project / "examples" / "embed", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    cmake("--build", build)
    done = subprocess.run([build / "embed", tmp_path / "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("IO_ERROR: cannot open weight file")


@pytest.mark.slow
def test_cuda_build(project: Path) -> None:
    """Compiles with nvcc, without warnings, and exports the same names: the CUDA runtime inside is hidden."""
    if find_nvcc() is None:
        pytest.skip("no nvcc on this machine")
    lines: list[str] = []
    folder = build_project(project, "cuda", progress=lines.append)
    assert "warning" not in "\n".join(lines).lower(), "\n".join(lines)
    assert exported(folder / "libtiny.so") == declared(project)
