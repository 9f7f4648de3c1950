"""SmolLM2-135M generated, built for the host (or KGEN_E2E_PRESET) and packed, once for all test processes."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRESET = os.environ.get("KGEN_E2E_PRESET", "host")


@pytest.fixture(scope="session")
def preset() -> str:
    """The preset under test."""
    return PRESET


@pytest.fixture(scope="session")
def reference() -> dict:
    """What transformers made of the same weights; tests/bench/reference.py writes it."""
    return json.loads((ROOT / "tests/e2e/reference.json").read_text())


@pytest.fixture(scope="session")
def smollm2(reference) -> Path:
    """The project, with weights.bin in it and the library in build/host."""
    gguf = Path(os.environ.get("KGEN_SMOLLM2_GGUF", ROOT / ".cache/smollm2" / reference["model"]))
    if not gguf.is_file():
        pytest.skip(f"{gguf} is not there; make weights fetches it")
    project = ROOT / "build/e2e/smollm2-135m"
    project.parent.mkdir(parents=True, exist_ok=True)
    with (project.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kgen("generate", ROOT / "specs/models/smollm2-135m.yaml", "--out", project, "--force")
        kgen("build", project, "--preset", PRESET)
        kgen("pack", project, "--weights", gguf)
    return project


@pytest.fixture(scope="session")
def model(smollm2):
    """The loaded library, through the project's own binding."""
    from kgen.runner import WEIGHTS, find_library, load_binding

    binding = load_binding(smollm2)
    with binding.Model(smollm2 / WEIGHTS, library=find_library(smollm2, PRESET)) as loaded:
        yield loaded


def kgen(*arguments: object) -> str:
    """Run the command line; its standard output."""
    command = [sys.executable, "-m", "kgen.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"kgen {arguments[0]} exited with {done.returncode}:\n{done.stderr[-4000:]}"
    return done.stdout
