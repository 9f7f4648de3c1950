"""What ptxas says about the workers' kernels, and how long their compilation took."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

KERNEL = "run_workers"
CLUSTER_CHIP = "sm_90a"  # on others the kernels of the cluster worker are empty
_FILE = "kernel.json"  # in the build folder: what the last compilation printed
_OBJECT = "src/api.cpp.o"
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_FUNCTION = re.compile(r"Function properties for (\w+)")
_MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_CLUSTERS = re.compile(r"run_clusters.*Lj(\d+)EE")
_PREFILL = "run_prefill"


@dataclass(frozen=True, slots=True)
class KernelReport:
    """A worker's kernel on one chip. Spills and stack are bytes a thread, its functions' included."""

    chip: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    name: str = KERNEL

    def line(self) -> str:
        """One line for a person."""
        spilled = max(self.spill_stores, self.spill_loads)
        return f"{self.name}: {self.registers} registers, {spilled} bytes spilled ({self.chip})"


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The workers' kernels on every chip that a folder is built for; seconds: of nvcc, None if unknown."""

    kernels: tuple[KernelReport, ...]
    seconds: float | None

    def lines(self) -> list[str]:
        """What a build says."""
        took = [] if self.seconds is None else [f"nvcc took {self.seconds:.1f} s"]
        return [kernel.line() for kernel in self.kernels] + took

    def to_json(self) -> dict[str, Any]:
        """The same for a machine."""
        return {"kernels": [asdict(kernel) for kernel in self.kernels], "nvcc_seconds": self.seconds}


def parse_ptxas(lines: Iterable[str]) -> tuple[KernelReport, ...]:
    """The workers' kernels in the output of `ptxas -v`: a report for each chip and kernel, in its order.

    Functions that were not inlined come after a kernel; they are counted to the general worker, whoever calls
    them.
    """
    registers: dict[tuple[str, str], int] = {}
    memory: dict[tuple[str, str], list[int]] = {}
    entry, chip, function, name = "", "", "", ""
    for line in lines:
        if found := _ENTRY.search(line):
            entry, chip = found.groups()
            name = _name(entry, chip)
        elif found := _FUNCTION.search(line):
            function = found[1]
        elif (found := _MEMORY.search(line)) and (function != entry or name):
            key = (chip, name if function == entry else KERNEL)
            total = memory.setdefault(key, [0, 0, 0])
            memory[key] = [a + int(b) for a, b in zip(total, found.groups(), strict=True)]
        elif (found := _REGISTERS.search(line)) and name:
            registers[chip, name] = int(found[1])
    reports = []
    for (chip, name), used in registers.items():
        stack, stores, loads = memory[chip, name]
        reports.append(KernelReport(chip, used, stack, stores, loads, name))
    return tuple(reports)


def _name(entry: str, chip: str) -> str:
    """Of a worker's kernel, for messages; empty for other kernels."""
    if KERNEL in entry:
        return KERNEL
    if chip != CLUSTER_CHIP:
        return ""
    if _PREFILL in entry:
        return _PREFILL
    found = _CLUSTERS.search(entry)
    rows = "" if found is None else found[1]
    return rows and f"run_clusters, {rows} row{'' if rows == '1' else 's'}"


def save_report(folder: Path, lines: Iterable[str]) -> None:
    """Keep what a build in `folder` printed of the worker kernel, if it compiled it."""
    kernels = parse_ptxas(lines)
    if kernels:
        report = BuildReport(kernels, compile_seconds(folder))
        (folder / _FILE).write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")


def read_report(folder: Path) -> BuildReport | None:
    """What `save_report` kept in a build folder; None where it kept nothing of the last compilation."""
    file = folder / _FILE
    if not file.is_file():
        return None
    objects = folder.glob(f"CMakeFiles/*.dir/{_OBJECT}")
    if any(compiled.stat().st_mtime > file.stat().st_mtime for compiled in objects):
        return None  # somebody else has compiled since
    kept = json.loads(file.read_text(encoding="utf-8"))
    return BuildReport(tuple(KernelReport(**kernel) for kernel in kept["kernels"]), kept["nvcc_seconds"])


def compile_seconds(folder: Path) -> float | None:
    """Seconds that the last compilation of the kernel took, from Ninja's log; None where there is none."""
    try:
        log = (folder / ".ninja_log").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    seconds = None
    for line in log.splitlines():
        fields = line.split(
            "\t"
        )  # start and end in milliseconds, time of change, output, hash of the command
        if len(fields) == 5 and fields[3].endswith(_OBJECT):
            seconds = (int(fields[1]) - int(fields[0])) / 1000
    return seconds
