"""Matrices where the library under test reads and writes them: NumPy's memory, or that of a GPU."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from driver import Driver
from elements import NAN, Bits

_ALIGNMENT = 256
_GUARD = 64  # elements behind a matrix that nobody may touch


class HostArray:
    """Rows of a matrix, `gap` elements between them; everything is NAN at first."""

    def __init__(self, shape: tuple[int, ...], gap: int = 0) -> None:
        self.shape = shape
        rows, columns = (1, shape[0]) if len(shape) == 1 else shape
        self.pitch = columns + gap
        room = np.full(rows * self.pitch + _GUARD + _ALIGNMENT // 2, NAN, dtype=np.uint16)
        first = -room.ctypes.data % _ALIGNMENT // 2
        self.buffer = room[first : first + rows * self.pitch + _GUARD]

    def rows(self, buffer: Bits) -> Bits:
        """The matrix in a buffer like this one's."""
        if len(self.shape) == 1:
            return buffer[: self.shape[0]]
        return buffer[: self.shape[0] * self.pitch].reshape(self.shape[0], self.pitch)[:, : self.shape[1]]

    def argument(self) -> Any:
        """What the binding takes."""
        return self.rows(self.buffer)

    def read(self) -> Bits:
        """A copy of all, gaps and guard too."""
        return self.buffer.copy()

    def write(self, buffer: Bits) -> None:
        """Overwrite all."""
        self.buffer[:] = buffer

    # As NumPy arrays, for tests.

    def set(self, values: Bits) -> None:
        """Write the matrix and nothing else."""
        buffer = self.read()
        self.rows(buffer)[...] = values
        self.write(buffer)

    def get(self) -> Bits:
        """The matrix; fails if something outside of it was written."""
        buffer = self.read()
        values = self.rows(buffer).copy()
        self.rows(buffer)[...] = NAN
        assert (buffer == NAN).all(), "memory between the rows or behind the matrix was written"
        return values

    def poison(self) -> None:
        """NAN everywhere."""
        self.write(np.full(self.buffer.size, NAN, dtype=np.uint16))

    def free(self) -> None:
        """Give it back."""


class DeviceArray(HostArray):
    """The same on the current GPU; the NumPy memory is where it passes through."""

    def __init__(self, driver: Driver, stream: ctypes.c_void_p, shape: tuple[int, ...], gap: int = 0) -> None:
        super().__init__(shape, gap)
        self.driver, self.stream, self.data = driver, stream, ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(self.data), ctypes.c_size_t(self.buffer.nbytes))
        self.write(self.buffer)

    def argument(self) -> Any:
        """What the binding takes."""
        strides = (2,) if len(self.shape) == 1 else (self.pitch * 2, 2)
        return _Interface(
            {
                "data": (self.data.value, False),
                "shape": self.shape,
                "strides": strides,
                "typestr": "<u2",
                "version": 3,
            }
        )

    def read(self) -> Bits:
        """A copy of all, gaps and guard too."""
        copy = np.empty_like(self.buffer)
        size = ctypes.c_size_t(copy.nbytes)
        address = ctypes.c_void_p(copy.ctypes.data)
        self.driver.call("cuMemcpyDtoHAsync_v2", address, self.data, size, self.stream)
        self.driver.synchronize(self.stream)
        return copy

    def write(self, buffer: Bits) -> None:
        """Overwrite all."""
        whole = np.ascontiguousarray(buffer)
        size = ctypes.c_size_t(whole.nbytes)
        address = ctypes.c_void_p(whole.ctypes.data)
        self.driver.call("cuMemcpyHtoDAsync_v2", self.data, address, size, self.stream)
        self.driver.synchronize(self.stream)

    def free(self) -> None:
        """Give it back."""
        self.driver.call("cuMemFree_v2", self.data)


class _Interface:
    """An object of which others know where its memory is."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.__cuda_array_interface__ = description


class Memory:
    """Makes the matrices of a rank. `device` None: the host.

    Has a stream for the rank's copies and runs: ranks that share a GPU wait for each other, so nothing of one
    may be enqueued behind, or wait for, what another does.
    """

    def __init__(self, device: int | None) -> None:
        self.device, self._made = device, list[HostArray]()
        self.driver = None if device is None else Driver()
        self.stream: ctypes.c_void_p | None = None
        if self.driver is not None:
            self.driver.use(device)
            self.stream = self.driver.stream()

    def array(self, shape: tuple[int, ...], gap: int = 0) -> HostArray:
        """A new matrix of NANs."""
        if self.driver is None or self.stream is None:
            made = HostArray(shape, gap)
        else:
            made = DeviceArray(self.driver, self.stream, shape, gap)
        self._made.append(made)
        return made

    def free(self) -> None:
        """Give back all that were made."""
        for array in self._made:
            array.free()
        self._made.clear()
        if self.driver is not None:
            self.driver.call("cuStreamDestroy_v2", self.stream)
