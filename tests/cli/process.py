"""Runs the installed `kgen`."""

import os
import subprocess
import sys
from pathlib import Path

KGEN = Path(sys.executable).parent / "kgen"
ROOT = Path(__file__).parents[2]


def kgen(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [str(KGEN), *map(str, arguments)]
    env = os.environ | environment
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, encoding="utf-8", timeout=300, check=False
    )


def one_sentence(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The sentence of a failed command that printed nothing else."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr.strip()
