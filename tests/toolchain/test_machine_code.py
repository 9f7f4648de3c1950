"""What the compiler made of the decode kernels, where its choice decides their speed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgen.frontend.build import build_graph
from kgen.passes.pipeline import compile_graph
from kgen.paths import shipped_spec
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.spec.load import load_spec
from kgen.toolchain.cuda_wheels import GET_WHEELS
from kgen.toolchain.find import find_nvcc

pytestmark = pytest.mark.slow
DISASSEMBLER = "nvidia-cuda-nvdisasm==13.2.51"
GROUPS = 8  # KV heads of the model: the least clusters whose sums a look asks for
PIECES = 4  # of the residual stream that a look asks for, of several rows
WIDE_LOAD = re.compile(r"LDG\.E\.128\.STRONG\.GPU R(\d+),")
REGISTER = re.compile(r"\bR(\d+)\b")


@pytest.fixture(scope="module")
def disassembler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("disassembler")
    install = [sys.executable, "-m", "pip", "--quiet", "install", "--no-deps", "--target", site, DISASSEMBLER]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "No matching distribution" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    (program,) = site.glob("**/bin/nvdisasm")
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, disassembler: Path) -> dict[int, list[tuple[str, str]]]:
    """Of the kernel for so many rows every instruction, and the file that it comes from."""
    nvcc, spec = find_nvcc(), shipped_spec("tiny-decoder")
    if nvcc is None:
        pytest.skip(f"there is no nvcc here: {GET_WHEELS}")
    assert spec is not None
    folder = tmp_path_factory.mktemp("machine_code")
    write_tree(render_project(compile_graph(build_graph(load_spec(spec)))), folder)
    flags = ["-std=c++20", "-O3", "-lineinfo", "-gencode=arch=compute_90a,code=sm_90a", "-DPK_CUDA=1"]
    command = [
        nvcc.path,
        *flags,
        "-Iinclude",
        "-Isrc",
        "-x",
        "cu",
        "-cubin",
        "src/api.cpp",
        "-o",
        "api.cubin",
    ]
    subprocess.run(command, cwd=folder, check=True)
    text = subprocess.run(
        [disassembler, "-g", "-c", folder / "api.cubin"], capture_output=True, text=True, check=True
    ).stdout
    return {
        int(found[1]): list(instructions(section))
        for section in text.split("\t.section\t")
        if (found := re.match(r"\.text\.\S*run_clusters\S*Lj(\d+)E", section))
    }


def instructions(section: str) -> Iterator[tuple[str, str]]:
    file = ""
    for line in section.splitlines():
        if found := re.match(r'\s*//## File "([^"]+)"', line):
            file = Path(found[1]).name
        elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*);", line):
            yield found[1], file


def looks(code: list[tuple[str, str]]) -> Iterator[int]:
    """How many wide loads of words that others write are on their way when the first is used."""
    on_the_way: set[int] = set()
    count = 0
    for instruction, _ in code:
        if found := WIDE_LOAD.search(instruction):
            first = int(found[1])
            on_the_way |= set(range(first, first + 4))
            count += 1
        elif count and on_the_way & {int(r) for r in REGISTER.findall(instruction)}:
            yield count
            on_the_way, count = set(), 0


def test_all_loads_of_a_look_are_on_their_way_together(kernels: dict[int, list[tuple[str, str]]]) -> None:
    # Each takes all the way to L2 and back: one after the other they made a step a tenth slower.
    assert set(kernels) == {1, 8, 16}
    for rows, code in kernels.items():
        counts = list(looks([i for i in code if i[1] in ("load.hpp", "bits.hpp", "gather.hpp")]))
        sums = [count for count in counts if count >= GROUPS]
        pieces = [count for count in counts if count == PIECES]
        assert sums, (rows, counts)
        assert bool(pieces) == (rows > 1), (rows, counts)
        assert len(sums) + len(pieces) == len(counts), (rows, counts)


def test_products_follow_each_other(kernels: dict[int, list[tuple[str, str]]]) -> None:
    """Neither waits for the one before, nor for a descriptor from the lanes' registers.

    The compiler does both where it cannot tell what is equal in a warp, and says so of the first only.
    """
    for rows, code in kernels.items():
        names = [instruction for instruction, _ in code]
        products = [at for at, name in enumerate(names) if "HGMMA" in name]
        assert products, rows
        between = names[products[0] - 30 : products[-1]]
        assert sum("R2UR" in name for name in between) < len(products), rows
        assert sum("WARPGROUP.DEPBAR" in name for name in between) < len(products) / 4, rows
