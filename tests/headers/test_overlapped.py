"""The host twins of products and collectives, under ThreadSanitizer, whole and without one of their steps."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
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


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The programs of the twins, each built when it is first asked for."""
    folder = tmp_path_factory.mktemp("twins")

    @cache
    def build(source: str) -> Path:
        command = [CXX, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", "-O1", "-fsanitize=thread"]
        command += [f"-I{INCLUDE}", f"-I{HERE}", "-DPK_DROP", str(HERE / f"{source}.cpp")]
        built = subprocess.run([*command, "-o", folder / source], capture_output=True, text=True, timeout=300)
        assert built.returncode == 0, built.stderr
        return folder / source

    return build


def run_without(step: int, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {
        "PK_DROP": str(step),
        "PK_STRAGGLE": "1",
        "TSAN_OPTIONS": "halt_on_error=1 exitcode=66",
    }
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, env=variables)


# By the families of steps: which twins have them, where who communicates, and so the twin, is an argument.
STEPS = protocol_steps()
OF_COLLECTIVES = ("begun", "done", "finished", "epoch", "partial")
OF_NETWORK = ("begun", "done", "finished", "epoch")
OF_AGENTS = ("units", "gathered", "partial", "end", "staged", "pushed")  # calls end as those of all SMs
OF_PRODUCTS = ("done", "units", "gathered", "kept", "partial", "part", "finished", "epoch", "end")
TWINS = {
    ("overlapped", "intra_sm"): OF_PRODUCTS,
    ("overlapped", "inter_sm"): OF_AGENTS,
    ("collectives",): OF_COLLECTIVES,
    ("network",): OF_NETWORK,
}
CASES = [
    (twin, step) for twin, families in TWINS.items() for step in STEPS if step.rpartition("_")[2] in families
]


def test_every_step_has_a_twin() -> None:
    assert {step for _, step in CASES} == set(STEPS)


@pytest.mark.parametrize("twin", TWINS, ids=" ".join)
def test_all_ranks_agree_without_a_race(twin: tuple[str, ...], programs: Callable[[str], Path]) -> None:
    source, *arguments = twin
    done = run_without(0, programs(source), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("twin", "step"), CASES, ids=lambda value: value if isinstance(value, str) else "-".join(value)
)
def test_every_step_of_the_protocol_is_needed(
    twin: tuple[str, ...], step: str, programs: Callable[[str], Path]
) -> None:
    source, *arguments = twin
    done = run_without(STEPS.index(step) + 1, programs(source), *arguments)
    assert done.returncode != 0, f"nobody notices that {step} is missing"
