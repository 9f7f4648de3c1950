"""Times this kernel on real GPUs beside what a user would run instead, and checks its results.

    python3 bench/overlap.py [--world 2] [--case M=4096] [--case M=8192] [--json FILE]

Needs PyTorch and a GPU for each rank. Times are the slowest rank's: the median and the 99th percentile of
replays of a CUDA graph, on random data. Beside it, in turns with it: the product alone (cuBLAS), product and
collective (cuBLAS and NCCL); and in the same run torch's asynchronous tensor parallelism where it has the
same operation. Of a collective alone: NCCL, and the bytes that a rank sends in a second.
Exit code 0: correct; 1: a wrong result; 2: it could not be run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
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
SECONDS = 300  # of a case
SECONDS_TO_END = 30  # of ranks that are told to
ROW_ELEMENTS = 8  # rows of matrices are multiples of 16 bytes
COLUMNS = (
    f"{'':30} {'this':>9} {'p99':>9} {{rate}} {'product':>9} {'':6} {'+ NCCL':>9} {'':6}"
    f" {'async TP':>9} {'':6} {'bound':>6} {'error':>9} {'torch':>9}"
)


class CannotRun(Exception):
    """The message says what is missing or wrong, in one sentence."""


def sizes_of(kernel: dict[str, Any], case: str, world: int) -> dict[str, int]:
    """The size of every dim: fixed, as the case says ("M=4096,K=512"), or the largest. Raises CannotRun."""
    dims = {dim["name"]: dim for dim in kernel["dims"]}
    units = dict.fromkeys(dims, 1)
    for part in filter(None, (kernel["n"], kernel["k"])):
        unit = ROW_ELEMENTS * (world if part["split"] else 1)
        units[part["dim"]] = max(units[part["dim"]], unit)
    sizes = {name: dim["hi"] // units[name] * units[name] for name, dim in dims.items()}
    for item in filter(None, case.split(",")):
        name, _, value = item.partition("=")
        known = name in dims and value.isdecimal()
        if not known or not dims[name]["lo"] <= int(value) <= dims[name]["hi"]:
            ranges = ", ".join(f"{dim['name']}={dim['lo']}..{dim['hi']}" for dim in kernel["dims"])
            raise CannotRun(f"--case {case}: '{item}' is not one of {ranges}")
        if int(value) % units[name] != 0:
            ranks = f" with {world} ranks" if world > 1 else ""
            raise CannotRun(f"--case {case}: {name} must be a multiple of {units[name]}{ranks}")
        sizes[name] = int(value)
    return sizes


def check_world(kernel: dict[str, Any], world: int) -> None:
    """Raises CannotRun for a number of ranks that the kernel does not take."""
    if world not in kernel["worlds"]:
        taken = ", ".join(map(str, kernel["worlds"]))
        raise CannotRun(f"--world {world}: the numbers of ranks of {kernel['name']} are {taken}")


def check_kind(kernel: dict[str, Any]) -> None:
    """Raises CannotRun for a kernel that is not run on GPUs."""
    if kernel["in_network"]:
        raise CannotRun(
            f"{kernel['name']} adds by NVLink multicast, which has never been run on GPUs, and is not by this"
        )


def check_machine(world: int) -> None:
    """Raises CannotRun where PyTorch or GPUs are missing."""
    try:
        import torch
    except ImportError as error:
        raise CannotRun(f"the bench needs PyTorch in {sys.executable}: {error}") from error
    found = torch.cuda.device_count()
    if found < world:
        raise CannotRun(f"the bench needs a GPU for each of {world} ranks, and PyTorch finds {found}")


def check_library(name: str) -> None:
    """Raises CannotRun where the library was not built."""
    sys.path.insert(0, str(PROJECT / "python"))
    try:
        library = importlib.import_module(name).find_library()
    except FileNotFoundError as error:
        raise CannotRun(str(error)) from error
    if not library.is_file():
        raise CannotRun(f"the library {library} is not there")


def run_ranks(world: int, task: dict[str, Any]) -> dict[str, Any]:
    """What rank.py reports of the cases. Raises CannotRun."""
    limit = SECONDS * len(task["cases"])
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc_per_node={world}", str(BENCH / "rank.py")]
        command.append(json.dumps(task | {"report": str(report)}))
        code = run_for(command, limit)
        if code is None:
            raise CannotRun(f"the ranks took more than {limit} s")
        if code != 0 or not report.is_file():
            raise CannotRun(f"the ranks failed with exit code {code}; what they said is above")
        found: dict[str, Any] = json.loads(report.read_text())
        return found


def run_for(command: Sequence[str], seconds: float) -> int | None:
    """The exit code of a command; None of one that took longer and was ended, with the ranks it started."""
    with subprocess.Popen(command, env=os.environ | ENVIRONMENT) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun then ends its ranks; killed it would leave them behind
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
    return None


def line(row: dict[str, Any]) -> str:
    """A row of the table: times in us, and how many times as long as this kernel the others take."""
    sizes = " ".join(f"{name}={size}" for name, size in row["sizes"].items())
    rate = row["tflops"] if "tflops" in row else row["gbytes_per_s"]
    text = f"{sizes:30} {row['us']:9.1f} {row['us_p99']:9.1f} {rate:6.0f}"
    for name in ("product", "nccl", "async_tp"):
        other = row.get(f"{name}_us")
        text += f" {'-':>9} {'-':>6}" if other is None else f" {other:9.1f} {other / row['us']:6.2f}"
    bound = f"{row['bound']:6.2f}" if "bound" in row else f"{'-':>6}"
    return (
        f"{text} {bound} {row['error']:9.1e} {row['torch_error']:9.1e}{'' if row['correct'] else '  WRONG'}"
    )


def at_least_1(text: str) -> int:
    """The type of an argument that is a whole number, 1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def parse_arguments(kernel: dict[str, Any]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    # The fewest that are several, where the kernel takes several.
    world = next((world for world in kernel["worlds"] if world > 1), kernel["worlds"][0])
    default = " [default: %(default)s]"
    parser.add_argument("--world", type=int, default=world, help="ranks, a GPU each" + default)
    parser.add_argument(
        "--case", action="append", default=[], help="sizes such as M=4096; may be given again"
    )
    parser.add_argument("--replays", type=at_least_1, default=30, help="of a CUDA graph" + default)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--check", action="store_true", help="say whether it could be run, and run nothing")
    return parser.parse_args()


def main() -> int:
    kernel = json.loads((PROJECT / "kernel.json").read_text())
    arguments = parse_arguments(kernel)
    try:
        check_kind(kernel)
        check_world(kernel, arguments.world)
        cases = [sizes_of(kernel, case, arguments.world) for case in arguments.case or [""]]
        check_machine(arguments.world)
        if arguments.check:
            return 0
        check_library(kernel["name"])
        if arguments.json:
            arguments.json.write_text("")  # where it cannot be written, that is said before minutes are spent
        found = run_ranks(arguments.world, {"cases": cases, "replays": arguments.replays})
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    except CannotRun as reason:
        print(reason, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename}: {error.strerror}" if error.filename else error, file=sys.stderr)
        return 2
    print(f"{kernel['name']} on {found['world']} x {found['gpu']}; us, and times as long as this kernel")
    print(COLUMNS.format(rate=f"{'GB/s' if kernel['collective'] else 'TF/s':>6}"))
    for row in found["cases"]:
        print(line(row))
    for what, why in found["missing"].items():
        print(f"no {what}: {why}")
    return 0 if all(row["correct"] for row in found["cases"]) else 1


if __name__ == "__main__":
    sys.exit(main())
