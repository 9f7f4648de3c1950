"""The CUDA driver, through ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

NON_BLOCKING = 1
MULTIPROCESSOR_COUNT = 16


class Driver:
    """The few driver functions that the tests need, checked."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        result = self.library[name](*arguments)
        assert result == 0, f"{name} returned {result}"

    def stream(self) -> ctypes.c_void_p:
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        return stream

    def synchronize(self, stream: ctypes.c_void_p) -> None:
        self.call("cuStreamSynchronize", stream)

    def multiprocessors(self) -> int:
        """SMs of the device that models are made on when a test names none."""
        device, count = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDeviceGetAttribute", ctypes.byref(count), MULTIPROCESSOR_COUNT, device)
        return count.value
