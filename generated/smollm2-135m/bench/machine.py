"""The machine that figures depend on: what it is, and how fast it reads memory."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

# Nothing here uses multicast over NVLink; libraries that would use it are told not to.
ENVIRONMENT = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
CEILING_SECONDS = 60


class Unknown(Exception):
    """A figure that cannot be had here; the message says why."""


def output_of(*command: str | Path) -> str:
    """First line of a command's output, or an empty string."""
    try:
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""


def about(source: Path) -> dict[str, Any]:
    """Machine and versions. The commit is KGEN_COMMIT's, else that of the folder `source`."""
    query = "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem"
    return {
        "gpu": output_of("nvidia-smi", query, "--format=csv,noheader"),
        "nvcc": output_of("bash", "-c", "nvcc --version | grep -o 'release [0-9.]*, V[0-9.]*'"),
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "commit": os.environ.get("KGEN_COMMIT") or output_of("git", "-C", source, "rev-parse", "HEAD"),
        **{name: version(name) for name in ("torch", "transformers", "numpy") if version(name)},
    }


def version(package: str) -> str:
    """The version of an installed Python package, or an empty string."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def read_ceiling(program: Path) -> dict[str, Any]:
    """What the program of bench/read_ceiling.cu measures. Raises Unknown."""
    if not program.is_file():
        raise Unknown(f"{program.name} is not built, which CMake's preset cuda does")
    try:
        done = subprocess.run([program], capture_output=True, text=True, timeout=CEILING_SECONDS, check=False)
    except subprocess.TimeoutExpired as late:
        raise Unknown(f"{program.name} took more than {CEILING_SECONDS} s") from late
    if done.returncode != 0:
        raise Unknown(f"{program.name} failed: {done.stderr.strip()}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def kernel_report(build: Path) -> dict[str, Any] | None:
    """Registers and spills of the worker kernel and the seconds of nvcc, where `kgen build` kept them."""
    file = build / "kernel.json"
    return json.loads(file.read_text()) if file.is_file() else None
