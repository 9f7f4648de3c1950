"""The host twin of the overlapped kernel, under ThreadSanitizer, whole and without one of its steps."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "templates" / "project" / "include"
CXX = os.environ.get("CXX", "g++")


def protocol_steps() -> list[str]:
    """The operations that PK_DROP can leave out, from 1 on."""
    source = (INCLUDE / "pk" / "lcsc" / "host_protocol.hpp").read_text()
    found = re.search(r"enum class Step : int \{(.*?)\};", source, re.DOTALL)
    assert found is not None
    names = re.findall(r"\w+", found[1])
    assert (names[0], names[-1]) == ("nothing", "count")
    return names[1:-1]


def run_without(step: int, tmp_path: Path, seed: int = 1) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "overlapped"
    command = [CXX, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", "-O1", "-fsanitize=thread"]
    command += [
        f"-I{INCLUDE}",
        f"-I{HERE}",
        f"-DPK_DROP={step}",
        str(HERE / "overlapped.cpp"),
        "-o",
        str(program),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    variables = os.environ | {"PK_STRAGGLE": str(seed), "TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}
    return subprocess.run([str(program)], capture_output=True, text=True, timeout=300, env=variables)


def test_all_ranks_agree_without_a_race(tmp_path: Path) -> None:
    done = run_without(0, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("step", protocol_steps())
def test_every_step_of_the_protocol_is_needed(step: str, tmp_path: Path) -> None:
    done = run_without(protocol_steps().index(step) + 1, tmp_path)
    assert done.returncode != 0, f"nobody notices that {step} is missing"
