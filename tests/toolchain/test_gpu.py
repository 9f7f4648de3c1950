"""Asking the driver, with a stand-in for the driver's library."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = """
#include <cstring>
extern "C" {
int cuInit(unsigned) { return BROKEN; }
int cuDeviceGetCount(int* n) { *n = 2; return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = 7 + ordinal; return 0; }
int cuDeviceGetName(char* name, int size, int device) {
    std::strncpy(name, device == 7 ? "NVIDIA H200" : "NVIDIA A100", size);
    return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
    const bool first = device == 7;
    *value = attribute == 75 ? (first ? 9 : 8) : attribute == 76 ? 0 : attribute == 16 ? (first ? 132 : 108) : -1;
    return 0;
}
}
"""
ASK = (
    "from kgen.toolchain.gpu import find_gpus\nprint([(g.name, g.capability, g.sms) for g in find_gpus()])\n"
)


def ask(folder: Path, broken: int) -> str:
    command = [
        "g++",
        "-shared",
        "-fPIC",
        f"-DBROKEN={broken}",
        "-x",
        "c++",
        "-",
        "-o",
        folder / "libcuda.so.1",
    ]
    subprocess.run(command, input=DRIVER, text=True, check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    return subprocess.check_output([sys.executable, "-c", ASK], env=environment, text=True).strip()


def test_every_gpu_is_described(tmp_path: Path) -> None:
    assert ask(tmp_path, 0) == "[('NVIDIA H200', (9, 0), 132), ('NVIDIA A100', (8, 0), 108)]"


@pytest.mark.parametrize("code", [100, 999])
def test_a_driver_that_does_not_start_has_no_gpus(tmp_path: Path, code: int) -> None:
    assert ask(tmp_path, code) == "[]"
