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
    switch (attribute) {
        case 16: *value = first ? 132 : 108; return 0;  // multiprocessors
        case 75: *value = first ? 9 : 8; return 0;      // compute capability, major
        case 76: *value = 0; return 0;                  // and minor
    }
    return 1;
}
}
"""
ASK = """\
from kgen.toolchain.gpu import find_gpus
print([(gpu.name, gpu.capability, gpu.sms) for gpu in find_gpus()])
"""


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
