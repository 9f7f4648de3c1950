"""The GPUs of this machine, asked from the driver."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

_SM_COUNT, _MAJOR, _MINOR = 16, 75, 76  # CUdevice_attribute


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the driver describes it."""

    name: str
    capability: tuple[int, int]
    sms: int


def runs_projects(gpu: Gpu) -> bool:
    """Whether a GPU can run a generated project: bf16 tensor cores came with sm_80."""
    return gpu.capability >= (8, 0)


def find_gpus() -> list[Gpu]:
    """Every visible GPU; empty where there is no driver or none is visible."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    return [_describe(driver, ordinal) for ordinal in range(count.value)]


def _describe(driver: ctypes.CDLL, ordinal: int) -> Gpu:
    device = ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(device), ordinal)
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, len(name), device)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    return Gpu(
        name.value.decode(errors="replace"), (attribute(_MAJOR), attribute(_MINOR)), attribute(_SM_COUNT)
    )
