"""Builds a generated project's CUDA sources for the emulator: `tests/emulator/emulate.py PROJECT OUT`.

Writes OUT/lib{name}.so, which the project's Python binding loads when {NAME}_LIBRARY names it, and
OUT/libcuda.so.1, which the project's tests load instead of the driver (LD_LIBRARY_PATH). At run time
EMULATOR_SEED chooses the order of everything, EMULATOR_CLUSTERS the clusters of eight SMs that the chip has
(at least one for each KV head).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
CXX = os.environ.get("CXX", "g++")
# The emulator's headers before the project's: they take the place of those that only nvcc understands.
INCLUDE = ["include", "source"]
# -ffp-contract: a result must not depend on how the code around it was compiled. As nvcc does, the code casts
# between types of the same memory.
FLAGS = ["-std=c++20", "-O2", "-g1", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-DPK_CUDA=1"]
WARNINGS = ["-Wall", "-Wextra", "-Wno-unknown-pragmas"]


def machine_flags() -> list[str]:
    """A fused multiply-add in one instruction, where there is one.

    Not AVX-512: with it GCC 12 adds wrong where each of four sums takes some numbers in order, up to a count
    (`add_words` in gather.hpp; the loop alone in a program of its own too).
    """
    return ["-mavx2", "-mfma"] if platform.machine() == "x86_64" else []


def compile_all(sources: Sequence[Path], out: Path, flags: Sequence[str]) -> list[Path]:
    """Object files of the sources, two at a time."""
    out.mkdir(parents=True, exist_ok=True)
    include = [f"-I{HERE / folder}" for folder in INCLUDE]

    def one(source: Path) -> Path:
        made = out / f"{source.parent.name}_{source.stem}.o"
        run([CXX, *FLAGS, *machine_flags(), *WARNINGS, *include, *flags, "-c", str(source), "-o", str(made)])
        return made

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, sources))


def run(command: Sequence[str]) -> None:
    """Run a program; what it says if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def emulator_objects(out: Path) -> list[Path]:
    """The emulator itself."""
    return compile_all(sorted((HERE / "source").glob("*.cpp")), out, [])


def build(project: Path, out: Path, *, prefill: bool = True, timeline: bool = False) -> Path:
    """The library of a generated project, and beside it the driver's.

    prefill: whether the kernel that reads prompts is there; else the decode kernels read them, step by step.
    timeline: whether it records what its workers do.
    """
    name = json.loads((project / "model.json").read_text("utf-8"))["name"]
    flags = [f"-I{project / 'include'}", f"-I{project / 'src'}", "-include", "cuda_runtime.h"]
    if timeline:
        flags.append("-DPK_TIMELINE=1")
    if not prefill:
        flags.insert(0, f"-I{HERE / 'without_prefill'}")
    objects = compile_all([project / "src" / "api.cpp", project / "src" / "plan.cpp"], out, flags)
    library = out / f"lib{name}.so"
    objects += emulator_objects(out)
    run([CXX, "-shared", "-o", str(library), *map(str, objects), "-ldl"])
    (driver,) = compile_all([HERE / "driver" / "driver.cpp"], out, [])
    run([CXX, "-shared", "-o", str(out / "libcuda.so.1"), str(driver)])
    return library


def environment(library: Path, name: str, seed: int, clusters: int) -> dict[str, str]:
    """For a program that is to use the library of project `name`."""
    emulator = {"EMULATOR_SEED": str(seed), "EMULATOR_CLUSTERS": str(clusters)}
    where = {f"{name.upper()}_LIBRARY": str(library), "LD_LIBRARY_PATH": str(library.parent)}
    # NumPy's threads would only wait for the other runs.
    return os.environ | emulator | where | {"OPENBLAS_NUM_THREADS": "1"}


if __name__ == "__main__":
    print(build(Path(sys.argv[1]), Path(sys.argv[2])))
