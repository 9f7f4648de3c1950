"""Times this kernel on real GPUs beside what a user would run instead, and checks its results.

    python3 bench/overlap.py [--world 2] [--case M=4096] [--case M=8192] [--json FILE]

Needs PyTorch and a GPU for each rank. Times are the slowest rank's: the median and the 99th percentile of
replays of a CUDA graph, on random data. Beside it, in the same run: the product alone (cuBLAS), product and
collective (cuBLAS and NCCL), and torch's asynchronous tensor parallelism where it has the same operation.
Exit code 0: correct; 1: a wrong result; 2: it could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
PROJECT = BENCH.parent
# Nothing here uses multicast over NVLink; libraries that would use it are told not to.
ENVIRONMENT = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "OMP_NUM_THREADS": "1",
}
SECONDS = 300


def sizes_of(kernel: dict[str, Any], case: str) -> dict[str, int]:
    """The size of every dim: fixed, as the case says ("M=4096,K=512"), or the largest."""
    sizes = {dim["name"]: dim["hi"] for dim in kernel["dims"]}
    for item in filter(None, case.split(",")):
        name, _, value = item.partition("=")
        dim = next((dim for dim in kernel["dims"] if dim["name"] == name), None)
        if dim is None or not value.isdigit() or not dim["lo"] <= int(value) <= dim["hi"]:
            ranges = ", ".join(f"{dim['name']}={dim['lo']}..{dim['hi']}" for dim in kernel["dims"])
            raise SystemExit(f"--case {case}: '{item}' is not one of {ranges}")
        sizes[name] = int(value)
    return sizes


def line(row: dict[str, Any]) -> str:
    """A row of the table: times in us, and how many times as long as this kernel the others take."""
    sizes = " ".join(f"{name}={size}" for name, size in row["sizes"].items())
    text = f"{sizes:30} {row['us']:9.1f} {row['us_p99']:9.1f} {row['tflops']:6.0f}"
    for name in ("product", "nccl", "async_tp"):
        other = row.get(f"{name}_us")
        text += f" {'-':>9} {'-':>6}" if other is None else f" {other:9.1f} {other / row['us']:6.2f}"
    bound = f"{row['bound']:6.2f}" if "bound" in row else f"{'-':>6}"
    return (
        f"{text} {bound} {row['error']:9.1e} {row['torch_error']:9.1e}{'' if row['correct'] else '  WRONG'}"
    )


def main() -> int:
    kernel = json.loads((PROJECT / "kernel.json").read_text())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", type=int, default=max(2, kernel["world"]["lo"]), help="ranks, a GPU each")
    parser.add_argument(
        "--case", action="append", default=[], help="sizes such as M=4096; may be given again"
    )
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    arguments = parser.parse_args()
    cases = [sizes_of(kernel, case) for case in arguments.case or [""]]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        task = {"cases": cases, "replays": arguments.replays, "report": str(report)}
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc_per_node={arguments.world}", str(BENCH / "rank.py"), json.dumps(task)]
        try:
            done = subprocess.run(command, env=os.environ | ENVIRONMENT, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"the ranks took more than {SECONDS} s", file=sys.stderr)
            return 2
        if done.returncode != 0 or not report.is_file():
            return 2
        text = report.read_text()
    if arguments.json:
        arguments.json.write_text(text)
    found = json.loads(text)
    print(f"{kernel['name']} on {found['world']} x {found['gpu']}; us, and times as long as this kernel")
    print(
        f"{'':30} {'this':>9} {'p99':>9} {'TF/s':>6} {'product':>9} {'':6} {'+ NCCL':>9} {'':6} {'async TP':>9} {'':6}"
        f" {'bound':>6} {'error':>9} {'torch':>9}"
    )
    for row in found["cases"]:
        print(line(row))
    for what, why in found["missing"].items():
        print(f"no {what}: {why}")
    return 0 if all(row["correct"] for row in found["cases"]) else 1


if __name__ == "__main__":
    sys.exit(main())
