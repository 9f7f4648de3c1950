"""Every bad argument is refused with a status and a sentence that names it, and nothing is enqueued."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from problem import Problem, unit
from project import BY_ROLE, DIMS, KEPT, KERNEL, OUTPUT, ROLES, TENSORS
from ranks import Rank, as_threads, new_rendezvous, open_kernel

MATRICES = [name for name, tensor in TENSORS.items() if len(tensor["shape"]) == 2]
RANGES = [name for name, dim in DIMS.items() if dim["lo"] != dim["hi"]]
BY_DIM = {KERNEL[role]["dim"]: role for role in ROLES}


class Raw:
    """Arguments of a good run, which tests spoil."""

    def __init__(self, binding: ModuleType, mine: Rank) -> None:
        self.binding, self.mine, self.library = binding, mine, mine.kernel.library
        sizes = mine.problem.sizes
        self.good = {dim.lower(): sizes[dim] for dim in RANGES}
        for name, array in mine.arrays.items():
            self.good[name] = binding.view(name, array.argument()).data

    def run(self, **fields: Any) -> int:
        arguments = self.binding._Arguments(struct_bytes=ctypes.sizeof(self.binding._Arguments))
        for name, value in (self.good | fields).items():
            setattr(arguments, name, value)
        return int(self.library.run(self.mine.kernel._kernel, ctypes.byref(arguments), None))

    def refused(self, status: int, *words: str) -> None:
        assert self.binding.Status(status).name == "INVALID_ARGUMENT"
        sentence = self.library.last_error().decode()
        for word in words:
            assert word in sentence, sentence


@pytest.fixture
def with_raw(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int
) -> Callable[[Callable[[Raw], None]], None]:
    """Runs a body on rank 0 of a kernel, and then a good run on all ranks."""
    # A row for every rank, so that none may pass a null pointer.
    problem = Problem(some_world, sizes_for(some_world, max(16, some_world)))
    expected = problem.expected()

    def run(body: Callable[[Raw], None]) -> None:
        rendezvous = new_rendezvous()

        def rank_body(rank: int) -> None:
            memory = machine.memory(rank)
            options = machine.options(rank)
            with open_kernel(binding, library, rank, some_world, rendezvous, **options) as kernel:
                mine = Rank(kernel, memory, problem)
                if rank == 0:
                    body(Raw(binding, mine))
                mine.run()
                kernel.wait()
                mine.check(expected[rank], f"rank {rank} after what was refused")
            memory.free()

        as_threads(some_world, rank_body)

    return run


def test_bad_pointers(with_raw: Callable[..., None]) -> None:
    def body(raw: Raw) -> None:
        for name in TENSORS:
            raw.refused(raw.run(**{name: None}), f"arguments.{name} is NULL")
            raw.refused(raw.run(**{name: raw.good[name] + 8}), f"arguments.{name} is ", "multiple of 16")

    with_raw(body)


def test_an_input_over_the_output(with_raw: Callable[..., None]) -> None:
    """Also by a part. In place is what reads each element before it writes it."""

    def body(raw: Raw) -> None:
        in_place = BY_ROLE.get("rows" if KERNEL["collective"] == "all_reduce" else "residual")
        for name in set(TENSORS) - {OUTPUT}:
            rows, columns = raw.mine.output.shape
            last = rows * columns * 2 - 16
            for offset in {0, last // 2 // 16 * 16, last} - ({0} if name == in_place else set()):
                status = raw.run(**{name: raw.good[OUTPUT] + offset})
                raw.refused(status, f"arguments.{OUTPUT} and arguments.{name} have memory in common")
        for name in set(TENSORS) - {OUTPUT, KEPT} if KEPT else ():
            status = raw.run(**{name: raw.good[KEPT]})
            raw.refused(status, f"arguments.{KEPT} and arguments.{name} have memory in common")

    with_raw(body)


def test_bad_strides(with_raw: Callable[..., None]) -> None:
    def body(raw: Raw) -> None:
        for name in MATRICES:
            field = f"{name}_stride"
            for stride in (8 if raw.mine.arrays[name].shape[1] > 8 else 4, 4100, 2**31, 2**32 + 8192, 2**63):
                raw.refused(raw.run(**{field: stride}), f"arguments.{field} is {stride}", "multiple of 8")

    with_raw(body)


def test_bad_sizes(with_raw: Callable[..., None], some_world: int) -> None:
    def body(raw: Raw) -> None:
        for dim in RANGES:
            field, low, high = dim.lower(), DIMS[dim]["lo"], DIMS[dim]["hi"]
            for size in {0, low - 1, high + 1, 2**32 - 1}:
                raw.refused(raw.run(**{field: size}), f"arguments.{field} is {size}", f"{low} to {high}")
            step = unit(BY_DIM[dim], some_world)
            if step > 1 and high > step:
                size = (high - 1) // step * step + 1
                raw.refused(raw.run(**{field: size}), f"arguments.{field} is {size}", "a multiple of ")

    with_raw(body)


def test_a_residual_in_place_has_the_output_s_stride(with_raw: Callable[..., None]) -> None:
    if not KERNEL["residual"]:
        pytest.skip("this kernel has no residual")

    def body(raw: Raw) -> None:
        residual = BY_ROLE["residual"]
        wide = raw.mine.arrays[residual].shape[1] + 8
        status = raw.run(**{residual: raw.good[OUTPUT], f"{residual}_stride": wide})
        raw.refused(status, f"arguments.{OUTPUT} and arguments.{residual} have memory in common")

    with_raw(body)


def test_null_pointers_and_structures(with_raw: Callable[..., None]) -> None:
    def body(raw: Raw) -> None:
        library, handle = raw.library, raw.mine.kernel._kernel
        raw.refused(library.run(handle, None, None), "arguments is NULL")
        raw.refused(library.run(None, None, None), "kernel is NULL")
        raw.refused(library.wait(None), "kernel is NULL")
        raw.refused(library.get_info(None, None), "kernel is NULL")
        raw.refused(library.get_info(handle, None), "info is NULL")
        raw.refused(library.create(None, ctypes.byref(ctypes.c_void_p())), "options is NULL")
        raw.refused(library.create(None, None), "kernel is NULL")
        for size in (0, 4, 1 << 20):
            raw.refused(raw.run(struct_bytes=size), f"arguments.struct_bytes is {size}", "expected")
        library.destroy(None)

    with_raw(body)


def test_longer_structure_of_a_newer_header(with_raw: Callable[..., None]) -> None:
    """Fields that this library does not know are accepted while they are zero."""

    def body(raw: Raw) -> None:
        known = ctypes.sizeof(raw.binding._Arguments)

        class Newer(ctypes.Structure):
            _fields_ = [("known", raw.binding._Arguments), ("future", ctypes.c_uint64)]

        newer = Newer(future=1)
        newer.known.struct_bytes = ctypes.sizeof(Newer)
        status = raw.library.run(raw.mine.kernel._kernel, ctypes.byref(newer), None)
        raw.refused(status, "arguments.struct_bytes", f"byte {known}")

    with_raw(body)


def test_the_binding_checks_arrays(with_raw: Callable[..., None]) -> None:
    def body(raw: Raw) -> None:
        kernel, sizes = raw.mine.kernel, raw.mine.problem.sizes
        given = {name: array.argument() for name, array in raw.mine.arrays.items()}
        with pytest.raises(TypeError, match=f"run lacks {next(iter(given))}, expected "):
            kernel.run(sizes=sizes, **dict(list(given.items())[1:]))
        with pytest.raises(TypeError, match=f"{OUTPUT} is a list, expected an array"):
            kernel.run(sizes=sizes, **(given | {OUTPUT: [1, 2]}))
        first = MATRICES[0]
        for dim in TENSORS[first]["shape"]:
            larger = sizes | {dim: sizes[dim] + 8 * kernel.info.world}
            if DIMS[dim]["lo"] != DIMS[dim]["hi"]:
                with pytest.raises(ValueError, match=r"has the shape \(.*\), expected"):
                    kernel.run(sizes=larger, **given)

    with_raw(body)


def test_a_stream_on_the_host(with_raw: Callable[..., None], machine: Any) -> None:
    if machine.devices:
        pytest.skip("this library runs on a GPU")

    def body(raw: Raw) -> None:
        with pytest.raises(raw.binding.KernelError, match="stream is not NULL"):
            raw.mine.run(stream=16)

    with_raw(body)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rank": 3, "world": 3}, "the rank is 3 of a world of 3"),
        ({"rank": 0, "world": 1000}, "the world is 1000, expected .* to "),
        ({"sms": 1000000}, "options.sms"),
        ({"device": -7}, "options.device is -7"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_bad_options(
    binding: ModuleType, library: Any, machine: Any, options: dict[str, Any], words: str
) -> None:
    given = {"rank": 0, "world": 1, "rendezvous": new_rendezvous(), "timeout_ms": 300} | options
    if given["world"] == 1 and KERNEL["world"]["lo"] > 1:
        pytest.skip("one rank is too few")
    if "device" in options and not machine.devices:
        pytest.skip("the host has no devices")
    with pytest.raises(binding.KernelError, match=words) as error:
        binding.Kernel(library=library, **given)
    assert error.value.status in (binding.Status.INVALID_ARGUMENT, binding.Status.TIMEOUT)


def test_structure_of_options(binding: ModuleType, library: Any) -> None:
    handle = ctypes.c_void_p(1)
    options = binding._Options(struct_bytes=4)
    status = library.create(ctypes.byref(options), ctypes.byref(handle))
    assert status == binding.Status.INVALID_ARGUMENT
    assert "options.struct_bytes is 4" in library.last_error().decode()
    assert handle.value is None


def test_status_names(binding: ModuleType, library: Any) -> None:
    for status in binding.Status:
        assert library.status_name(status).decode() == status.name
    assert library.status_name(99) == b"UNKNOWN"


def test_arrays_that_are_not_what_the_kernel_reads(binding: ModuleType) -> None:
    """Rows that are one and the same, elements of another type, a read-only output: before any call."""
    row = np.ones(64, np.uint16)
    with pytest.raises(ValueError, match="0 bytes apart, expected one after the other"):
        binding.view("x", np.broadcast_to(row, (8, 64)))
    with pytest.raises(ValueError, match="-128 bytes apart, expected one after the other"):
        binding.view("x", np.ones((8, 64), np.uint16)[::-1])
    for dtype in ("int16", ">u2", "float16" if KERNEL["dtype"] == "bf16" else ">f2"):
        with pytest.raises(TypeError, match="the elements of x are"):
            binding.view("x", np.ones((8, 64), dtype))
    row.flags.writeable = False
    with pytest.raises(ValueError, match=f"{OUTPUT} is read-only"):
        binding.view(OUTPUT, row)
    binding.view("x", row)
