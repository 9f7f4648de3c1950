"""What the Python binding refuses before any call, and what it takes besides plain arrays."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from problem import Problem
from project import BY_ROLE, DIMS, KERNEL, OUTPUT
from ranks import Rank, as_threads, new_rendezvous, open_kernel

RANGES = [name for name, dim in DIMS.items() if dim["lo"] != dim["hi"]]
FIXED = [name for name in DIMS if name not in RANGES]


class Tensor:
    """What the binding asks of a tensor of PyTorch."""

    def __init__(self, array: np.ndarray[Any, Any], dtype: str) -> None:
        self._array, self.shape, self.dtype = array, array.shape, f"torch.{dtype}"

    def data_ptr(self) -> int:
        return int(self._array.ctypes.data)

    def element_size(self) -> int:
        return self._array.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self._array.itemsize for step in self._array.strides)


def test_sizes_that_cannot_be(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int
) -> None:
    """They would be others once cut to 32 bits, or are of nothing, or are not those that were compiled in."""
    problem, rendezvous = Problem(some_world, sizes_for(some_world)), new_rendezvous()
    expected = problem.expected()

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        with open_kernel(binding, library, rank, some_world, rendezvous, **machine.options(rank)) as kernel:
            mine, sizes = Rank(kernel, memory, problem), problem.sizes
            pointers = {
                name: binding.view(name, array.argument()).data for name, array in mine.arrays.items()
            }
            for dim in DIMS:
                for size in (2**32 + sizes[dim], 2**32, -1):
                    with pytest.raises(ValueError, match=f"{dim} is {size}, expected 0 to 4294967295"):
                        kernel.run(sizes=sizes | {dim: size}, **pointers)
                with pytest.raises(TypeError, match=f"{dim} is a float, expected a whole number"):
                    kernel.run(sizes=sizes | {dim: 8.5}, **pointers)
            for dim in FIXED:
                words = f"{dim} is {sizes[dim] + 8}, and this kernel is made for {sizes[dim]}"
                with pytest.raises(ValueError, match=words):
                    kernel.run(sizes=sizes | {dim: sizes[dim] + 8}, **pointers)
            with pytest.raises(ValueError, match=f"sizes has ZZ, expected {', '.join(DIMS)}"):
                kernel.run(sizes=sizes | {"ZZ": 8}, **pointers)
            with pytest.raises(ValueError, match=f"{OUTPUT} is {2**64}, expected 0 to "):
                kernel.run(sizes=sizes, **(pointers | {OUTPUT: 2**64}))
            kernel.run(
                stream=mine.stream, sizes={dim: np.int64(size) for dim, size in sizes.items()}, **pointers
            )
            kernel.wait()
            mine.check(expected[rank], f"rank {rank} after what was refused")
        memory.free()

    as_threads(some_world, body)


def test_tensors_that_are_not_those_of_the_kernel(
    binding: ModuleType, library: Any, machine: Any, some_world: int
) -> None:
    """All that is missing is named, and all that is too much."""
    first, *others = [tensor.name for tensor in binding.TENSORS]
    expected = f", expected {', '.join([first, *others])}"
    missing, every = ", ".join(others), dict.fromkeys([first, *others], 4096)
    rendezvous = new_rendezvous()

    def body(rank: int) -> None:
        with open_kernel(binding, library, rank, some_world, rendezvous, **machine.options(rank)) as kernel:
            for given, words in (
                ({}, f"run lacks {first}, {missing}"),
                ({first: 4096}, f"run lacks {missing}"),
                ({first: 4096, "other tensor": None}, f"run lacks {missing} and has other tensor"),
                (
                    every | {"other tensor": None, "another tensor": 4096},
                    "run has other tensor, another tensor",
                ),
            ):
                with pytest.raises(TypeError) as caught:
                    kernel.run(**given)
                assert str(caught.value) == words + expected

    as_threads(some_world, body)


def test_a_kernel_that_is_closed(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int
) -> None:
    problem, rendezvous = Problem(some_world, sizes_for(some_world)), new_rendezvous()

    def body(rank: int) -> None:
        memory = machine.memory(rank)
        with open_kernel(binding, library, rank, some_world, rendezvous, **machine.options(rank)) as kernel:
            mine = Rank(kernel, memory, problem)
        for call in (mine.run, kernel.wait, *([lambda: kernel.share(4096, 64)] if KERNEL["shares"] else [])):
            with pytest.raises(binding.KernelError, match=r"^INVALID_ARGUMENT: this kernel is closed$"):
                call()
        memory.free()

    as_threads(some_world, body)


@pytest.mark.parametrize("name", ["rank", "world", "device", "timeout_ms", "sms"])
def test_options_that_would_be_cut(binding: ModuleType, library: Any, name: str) -> None:
    for value in (2**32, -(2**32)):
        with pytest.raises(ValueError, match=f"{name} is {value}, expected "):
            binding.Kernel(**({"rank": 0, "world": 1, "library": library} | {name: value}))
    with pytest.raises(TypeError, match=f"{name} is a str, expected a whole number"):
        binding.Kernel(**({"rank": 0, "world": 1, "library": library} | {name: "1"}))


def test_arrays_that_are_no_matrix(binding: ModuleType) -> None:
    for shape in ((), (2, 8, 8)):
        array = np.ones(shape, np.uint16)
        for given in (array, Tensor(array, "uint16")):
            with pytest.raises(ValueError, match=f"x has {len(shape)} axes, expected a matrix or a vector"):
                binding.view("x", given)


def test_tensors_of_torch(binding: ModuleType) -> None:
    array = np.ones((4, 16), np.uint16)[:, :8]
    for dtype in ("uint16", "bfloat16" if KERNEL["dtype"] == "bf16" else "float16"):
        view = binding.view("x", Tensor(array, dtype))
        assert (view.data, view.shape, view.stride) == (array.ctypes.data, (4, 8), 16)
    for dtype in ("int16", "float16" if KERNEL["dtype"] == "bf16" else "bfloat16"):
        with pytest.raises(TypeError, match=f"the elements of x are {dtype}, expected"):
            binding.view("x", Tensor(array, dtype))


shares = pytest.mark.skipif(not KERNEL["shares"], reason="this kernel has no share")


@shares
def test_bytes_of_an_array(binding: ModuleType) -> None:
    """From the first element to the last."""
    array = np.ones((4, 16), np.uint16)
    cases = ((array, 128), (array[:, :8], 112), (array[:1, :8], 16), (array[0], 32), (array[:0], 0))
    assert [binding.view("x", given).size for given, _ in cases] == [size for _, size in cases]


@shares
@pytest.mark.parametrize("gap", [0, 24])
def test_an_array_is_shown_and_kept(
    binding: ModuleType, library: Any, machine: Any, sizes_for: Any, some_world: int, gap: int
) -> None:
    problem, rendezvous = Problem(some_world, sizes_for(some_world, 140)), new_rendezvous()
    expected = problem.expected()

    def body(rank: int) -> None:
        memory, shown = machine.memory(rank), []
        with open_kernel(binding, library, rank, some_world, rendezvous, **machine.options(rank)) as kernel:
            with pytest.raises(TypeError, match="share needs the size"):
                kernel.share(4096)
            with pytest.raises(ValueError, match=f"size is {2**64}, expected"):
                kernel.share(4096, 2**64)
            mine = Rank(kernel, memory, problem, gap=gap)
            for name in [BY_ROLE["rows"], OUTPUT] if KERNEL["collective"] else [OUTPUT]:
                given = mine.arrays[name].argument()
                shown.append(weakref.ref(given))
                kernel.share(given)
                del given
            for _ in range(3):
                mine.poison()
                mine.run()
                kernel.wait()
                mine.check(expected[rank], f"rank {rank}")
            assert all(ref() is not None for ref in shown)
        assert all(ref() is None for ref in shown)
        memory.free()

    as_threads(some_world, body)
