from pathlib import Path

import pytest

from kgen.toolchain.bench import can_bench_kernel, run_bench
from kgen.toolchain.build import build_project
from kgen.toolchain.find import ToolchainError
from kgen.toolchain.harness import run_harness
from tests.cli.process import kgen

TEST = """\
import ctypes, os

def test_answer():
    assert ctypes.CDLL(os.environ["SMALL_LIBRARY"]).answer() == {answer}

def test_other():
    assert {other}
"""

BENCH = """\
import json, os, sys
if sys.argv[-1] == "--check":
    sys.exit(0 if "--world" in sys.argv else 2)
assert os.path.isfile(os.environ["SMALL_LIBRARY"])
open(sys.argv[-1], "w").write(json.dumps({"asked": sys.argv[1:-2]}))
sys.exit(1)
"""


def write(project: Path, answer: int, other: bool) -> None:
    (project / "model.json").write_text('{"name": "small"}')
    (project / "tests").mkdir(exist_ok=True)
    (project / "tests" / "test_small.py").write_text(TEST.format(answer=answer, other=other))
    (project / "tests" / "pytest.ini").write_text("[pytest]\n")


def test_passes_and_fails_as_the_tests_do(project: Path) -> None:
    write(project, 42, True)
    build_project(project, "host", jobs=1)
    assert run_harness(project, "host") == 0
    write(project, 41, True)
    assert run_harness(project, "host") == 1


def test_arguments_go_to_pytest(project: Path) -> None:
    write(project, 42, False)
    build_project(project, "host", jobs=1)
    assert run_harness(project, "host") == 1
    assert run_harness(project, "host", ["-k", "answer"]) == 0


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("assert True", 0),
        ("assert False", 1),
        ("os._exit(66)", 1),
        ("__import__('pytest').exit('no GPU', returncode=2)", 2),
    ],
)
def test_exit_codes_of_the_command(project: Path, last: str, code: int) -> None:
    write(project, 42, True)
    with (project / "tests" / "test_small.py").open("a") as file:
        file.write(f"\ndef test_last():\n    {last}\n")
    done = kgen("test", project, "--preset", "host")
    assert (done.returncode, done.stderr) == (code, "")
    assert kgen("test", project, "--preset", "host", "--", "-k", "nothing").returncode == 2


def test_of_a_kernel(project: Path) -> None:
    write(project, 42, True)
    (project / "model.json").rename(project / "kernel.json")
    build_project(project, "host", jobs=1)
    assert run_harness(project, "host") == 0
    (project / "bench").mkdir()
    bench = project / "bench" / "overlap.py"
    bench.write_text(BENCH)
    assert run_bench(project, "host", ["--world", "2"], table=False) == (1, {"asked": ["--world", "2"]})
    assert can_bench_kernel(project, ["--world", "2"])
    assert not can_bench_kernel(project)


def test_without_a_library(project: Path) -> None:
    write(project, 42, True)
    with pytest.raises(ToolchainError, match=r"libsmall.so is not there; `kgen build "):
        run_harness(project, "host")
