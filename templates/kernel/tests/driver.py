"""The CUDA driver, through ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

NON_BLOCKING = 1


class Driver:
    """The few driver functions that the tests need, checked."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        result = self.library[name](*arguments)
        assert result == 0, f"{name} returned {result}"

    def devices(self) -> int:
        """How many GPUs there are."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def use(self, device: int | None) -> None:
        """Make the primary context of a GPU current in this thread; the process keeps it."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def current(self) -> int | None:
        """The context that is current in this thread."""
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value

    def stream(self) -> ctypes.c_void_p:
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        return stream

    def synchronize(self, stream: ctypes.c_void_p) -> None:
        self.call("cuStreamSynchronize", stream)
