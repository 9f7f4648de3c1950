"""The bench of a kernel's project as a program, with a PyTorch that has GPUs, but whose ranks only answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kgen.passes.kernel.pipeline import compile_kernel
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from tests.kernels import COLLECTIVES, GEMM, IN_NETWORK, RS, kernel

# torchrun, as far as the bench knows it: the last argument is the task, and the report is what it asks for.
TORCHRUN = """\
import json, os, sys
from pathlib import Path
task = json.loads(sys.argv[-1])
assert os.environ["NCCL_NVLS_ENABLE"] == "0"
told = json.loads(os.environ["TOLD"])
rows = [told | {"sizes": sizes} for sizes in task["cases"]]
report = {"world": int(sys.argv[2].partition("=")[2]), "gpu": "none", "cases": rows, "missing": {"X": "no"}}
Path(task["report"]).write_text(json.dumps(report))
sys.exit(told.get("code", 0))
"""
ROW = {"us": 10.0, "us_p99": 11.0, "tflops": 2.0, "product_us": 8.0, "nccl_us": 15.0, "bound": 1.25}
ROW |= {"error": 1e-3, "torch_error": 2e-3, "correct": True}


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    more = {
        "network": IN_NETWORK,
        "to_rows": COLLECTIVES["to_rows"],
        "ranged": RS.replace("K: 48", "K: 16..100"),
        "single": GEMM.replace("1..8", "1"),
    }
    for name, text in ({"rs": RS} | more).items():
        write_tree(render_project(compile_kernel(kernel(text))), folder / name)
        (folder / name / "libsmall.so").touch()
    run = folder / "torch" / "distributed" / "run.py"
    run.parent.mkdir(parents=True)
    run.write_text(TORCHRUN)
    (folder / "torch" / "__init__.py").write_text("class cuda:\n    device_count = lambda: 6\n")
    return folder


def bench(
    project: Path, *arguments: object, rows: dict[str, Any] = ROW, **told: Any
) -> subprocess.CompletedProcess[str]:
    """How overlap.py ended. told: what is different in the rows of the report."""
    variables = {"PYTHONPATH": str(project.parent), "SMALL_LIBRARY": str(project / "libsmall.so")}
    return subprocess.run(
        [sys.executable, project / "bench" / "overlap.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | variables | {"TOLD": json.dumps(rows | told)},
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The sentence of a bench that could not be run."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip()


def test_a_table_and_a_report(projects: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = bench(projects / "rs", "--case", "M=5", "--case", "M=64", "--json", report)
    assert (done.returncode, done.stderr) == (0, "")
    title, _, first, second, missing = done.stdout.splitlines()
    assert title.startswith("small on 2 x none; us")
    expected = "M=5 N=24 K=48 10.0 11.0 2 8.0 0.80 15.0 1.50 - - 1.25 1.0e-03 2.0e-03"
    assert " ".join(first.split()) == expected
    assert second.startswith("M=64 N=24 K=48 ")
    assert missing == "no X: no"
    assert [row["sizes"]["M"] for row in json.loads(report.read_text())["cases"]] == [5, 64]


def test_a_collective_has_bytes_and_no_product(projects: Path) -> None:
    told = {"gbytes_per_s": 357.4, "tflops": None, "product_us": None, "bound": None, "async_tp_us": None}
    rows = {name: value for name, value in (ROW | told).items() if value is not None}
    done = bench(projects / "to_rows", "--case", "M=5", rows=rows)
    assert (done.returncode, done.stderr) == (0, "")
    _, columns, line, _ = done.stdout.splitlines()
    assert ("GB/s" in columns, "TF/s" in columns) == (True, False)
    assert " ".join(line.split()) == "M=5 N=48 10.0 11.0 357 - - 15.0 1.50 - - - 1.0e-03 2.0e-03"


def test_exit_codes(projects: Path) -> None:
    done = bench(projects / "rs", correct=False)
    assert (done.returncode, "WRONG" in done.stdout) == (1, True)
    assert "failed with exit code 1;" in refused(bench(projects / "rs", code=1))
    missing = projects / "none" / "report.json"
    assert refused(bench(projects / "rs", "--json", missing)) == f"{missing}: No such file or directory"


def test_the_default_is_the_largest_case_on_two_ranks(projects: Path) -> None:
    assert "M=64 N=24 K=96 " in bench(projects / "ranged").stdout
    assert "small on 2 x " in bench(projects / "ranged").stdout
    assert "small on 1 x " in bench(projects / "single").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--case", "M=65"), "--case M=65: 'M=65' is not one of M=1..64, N=24..24, K=16..100"),
        (("--case", "M=5,Q=3"), "--case M=5,Q=3: 'Q=3' is not one of M=1..64, N=24..24, K=16..100"),
        (("--case", "M=²"), "--case M=²: 'M=²' is not one of M=1..64, N=24..24, K=16..100"),
        (("--case", "K=24"), "--case K=24: K must be a multiple of 16 with 2 ranks"),
        (("--case", "K=20", "--world", "1"), "--case K=20: K must be a multiple of 8"),
        (("--world", "9"), "--world 9: the numbers of ranks of small are 1, 2, 3, 4, 5, 6, 7, 8"),
        (("--world", "8"), "the bench needs a GPU for each of 8 ranks, and PyTorch finds 6"),
    ],
)
@pytest.mark.parametrize("check", [(), ("--check",)], ids=["run", "check"])
def test_what_cannot_be_run(
    projects: Path, arguments: tuple[str, ...], sentence: str, check: tuple[str, ...]
) -> None:
    assert refused(bench(projects / "ranged", *arguments, *check)) == sentence


def test_check_runs_nothing_and_needs_no_library(projects: Path) -> None:
    library = projects / "single" / "libsmall.so"
    assert "WRONG" not in bench(projects / "single").stdout
    library.unlink()
    assert str(library) in refused(bench(projects / "single"))
    done = bench(projects / "single", "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["run", "check"])
def test_sums_in_the_network_are_not_run_on_gpus(projects: Path, check: tuple[str, ...]) -> None:
    sentence = "small adds by NVLink multicast, which has never been run on GPUs, and is not by this"
    assert refused(bench(projects / "network", *check)) == sentence


def test_nor_by_the_harness(projects: Path) -> None:
    """It looks at the library before it loads it, and ends whatever else it was to test."""
    library = projects / "network" / "libsmall.so"
    library.write_bytes(b"code for GPUs is in a section .nv_fatbin")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", projects / "network" / "tests"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"SMALL_LIBRARY": str(library)},
    )
    assert done.returncode == 2, done.stdout
    assert f"{library} adds by NVLink multicast, which these tests do not run on GPUs" in done.stdout
    assert "passed" not in done.stdout


def test_nor_by_the_script_for_gpus(projects: Path, tmp_path: Path) -> None:
    """It says so for each stage, and starts none: not of this project."""
    script = Path(__file__).parents[1] / "gpu" / "kernels.py"
    command = [sys.executable, script, "--projects", projects, "--out", tmp_path]
    done = subprocess.run(
        [*map(str, command), "--checks", "network", "--benches", "network"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    why = "adds by NVLink multicast, which must not be run on these GPUs"
    assert (done.returncode, done.stderr) == (0, f"!!! check network: {why}\n!!! bench network: {why}\n")
    stages = json.loads((tmp_path / "kernels.json").read_text())["stages"]
    assert [(s["name"], s["status"], s["note"]) for s in stages] == [
        ("check network", "skipped", why),
        ("bench network", "skipped", why),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["kernels.json"]
