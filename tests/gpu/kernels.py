"""Kernels on two GPUs, in one call: harnesses, compute-sanitizer, and the benches of tests/bench/kernels.

    python3 tests/gpu/kernels.py --projects DIR --out DIR [--checks NAME,...] [--benches NAME,...]

DIR has the projects, generated and built (`kgen build --preset cuda`), each in a folder of its name. Writes
kernels.json, with what every stage did and every bench's report, and prints a table. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "templates" / "project" / "bench"))

from machine import about
from stage import Run

ROOT = Path(__file__).resolve().parents[2]
PK = (2048, 4096, 8192, 16384)
# Of the MLPs of Triton-distributed at 8192 rows: width of the MLP and of the model.
MLPS = (
    *((11008, 4096), (14336, 4096), (28672, 8192)),
    *((53248, 16384), (29568, 8192), (49152, 12288)),
)


def case(m: int, n: int, k: int) -> str:
    return f"M={m},N={n},K={k}"


# Rows that end within a tile, odd tiles, K within a step; each beside the shape that it would be padded to.
RAGGED = [case(2999, 4032, 8208), case(3072, 4096, 8320), case(1, 4032, 8208), case(128, 4096, 8320)]
RAGGED_GATHER = [case(2999, 4032, 4104), case(3072, 4096, 4160), case(1, 4032, 4104), case(128, 4096, 4160)]
SUMS = [case(n, n, n) for n in PK]  # K of both ranks together
FEW = [case(m, n, k) for m in (1, 32, 128) for n, k in ((4096, 4096), (5120, 12800), (14336, 4096))]
# More rows, whose tiles do not fill the SMs.
SOME = [case(m, n, k) for m in (256, 512, 1024) for n, k in ((4096, 4096), (5120, 12800), (14336, 4096))]
CASES = {
    "pk_gemm": [case(n, n, n) for n in PK[1:]] + [case(n, n, n // 2) for n in PK] + FEW + SOME,
    "pk_ag": [case(n, n // 2, n) for n in PK] + RAGGED_GATHER + [case(8192, n // 2, k) for n, k in MLPS],
    "pk_rs": SUMS + RAGGED + [case(8192, k, n) for n, k in MLPS],
    "pk_rs_16": SUMS,
    "pk_ar": SUMS + RAGGED,
    "pk_ar_16": SUMS,
    "decode_ar": [f"M={m}" for m in (1, 8, 32, 128)],
    "all_reduce": [f"M={m}" for m in (4, 16, 64, 128, 1024, 4096, 16384)],
    "all_gather": ["M=1024", "M=8192"],
    "reduce_scatter": ["M=1024", "M=8192"],
    "all_to_all": ["M=1024", "M=32768"],
}
SANITIZED = "test_random_data and (2-1x or 2-129x or 2-390x or 2-300x)"


REFUSED = "adds by NVLink multicast, which must not be run on these GPUs"


def in_network(project: Path) -> bool:
    """Whether a project adds in the network; one without a plan has nothing to run."""
    plan = project / "kernel.json"
    return plan.is_file() and json.loads(plan.read_text())["transfer"] == "multimem"


def library_of(projects: Path, name: str) -> dict[str, str]:
    return {f"{name.upper()}_LIBRARY": str(projects / name / "build" / "cuda" / f"lib{name}.so")}


def check(run: Run, projects: Path, name: str) -> None:
    """The harness with a GPU for each of two ranks, and with one that they share; memcheck and racecheck."""
    environment = library_of(projects, name)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run.stage(f"harness {name}", [*pytest, projects / name / "tests"], 60, env=environment)
    one = environment | {"CUDA_VISIBLE_DEVICES": "0"}
    run.stage(f"harness {name} one GPU", [*pytest, projects / name / "tests"], 60, env=one)
    results = projects / name / "tests" / "test_results.py"
    for tool in ("memcheck", "racecheck"):
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *pytest, results]
        run.stage(f"{tool} {name}", [*command, "-k", SANITIZED], 60, env=environment)


def bench(run: Run, projects: Path, name: str) -> None:
    """The project's own bench."""
    figures = run.out / f"bench-{name}.json"
    command = [sys.executable, projects / name / "bench" / "overlap.py", "--json", figures]
    for each in CASES.get(name, []):
        command += ["--case", each]
    run.stage(f"bench {name}", command, 120, env=library_of(projects, name), figures=figures)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--projects", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checks", default="", help="projects to check")
    parser.add_argument("--benches", default=",".join(CASES), help="projects to time")
    arguments = parser.parse_args()
    run = Run(arguments.out, "kernels.json", about(ROOT))
    for stage, names in ((check, arguments.checks), (bench, arguments.benches)):
        for name in filter(None, names.split(",")):
            if in_network(arguments.projects / name):
                refused = f"{stage.__name__} {name}"
                print(f"!!! {refused}: {REFUSED}", file=sys.stderr, flush=True)
                run.skip(refused, REFUSED)
            else:
                stage(run, arguments.projects, name)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
