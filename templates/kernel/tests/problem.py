"""A run of the kernel over some ranks: what each is given, and what it must find, by float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from elements import NAN, ROUNDING, SMALLEST, Bits, Reals, to_bits, to_reals
from project import BY_ROLE, DIMS, KEPT, KERNEL, OUTPUT, ROLES, TENSORS

# Of a dot product with fp32 sums: the steps' roundings add up like the root of their number.
_SUM_ROUNDING = 2.0**-22
_LONG = 1100  # steps of a sum; of longer ones the terms are smaller, so that 16 bits can hold them
_NON_ZERO = 400  # products of a sum that is to be exact, at most: it stays a small whole number


def part(size: int, rank: int, world: int) -> slice:
    """What a rank has of an axis: equal parts, the last ones what is left, maybe nothing."""
    each = -(-size // world)
    return slice(min(size, rank * each), min(size, (rank + 1) * each))


def unit(role: str, world: int) -> int:
    """What the size of a product's side is a multiple of."""
    multiple = 1 if role == "m" else 8
    return multiple * world if KERNEL[role]["split"] else multiple


def nearest_size(role: str, wanted: int, world: int) -> int:
    """A size that the kernel takes, close to the one wanted; 0 if there is none."""
    dim, step = DIMS[KERNEL[role]["dim"]], unit(role, world)
    size = min(max(wanted, dim["lo"]), dim["hi"])
    up, down = -(-size // step) * step, size // step * step
    return up if up <= dim["hi"] else down if down >= dim["lo"] else 0


def make_sizes(world: int, m: int, n: int, k: int) -> dict[str, int]:
    """Sizes close to those wanted, by the names of the dims."""
    wanted = {"m": m, "n": n, "k": k}
    return {KERNEL[role]["dim"]: nearest_size(role, wanted[role], world) for role in ROLES}


def products(sizes: dict[str, int], world: int) -> int:
    """Multiplications of all ranks; of a collective alone, elements."""
    count = world * int(np.prod([sizes[KERNEL[role]["dim"]] for role in ROLES], dtype=np.int64))
    return count // (world if any(KERNEL[role]["split"] for role in ROLES) else 1)


@dataclass(frozen=True)
class Expected:
    """The output of a rank, and how far from it is still right."""

    values: Reals
    bound: Reals
    kept: Bits | None = None  # the gathered rows, where these are an output too

    def check(self, got: Bits, what: str) -> None:
        """`got` is the output as the run left it."""
        assert got.shape == self.values.shape, what
        if got.size == 0:
            return
        reals = to_reals(got)
        assert not (got == NAN).any(), f"{what}: {int((got == NAN).sum())} elements were not written"
        off = np.abs(reals - self.values) - self.bound
        worst = np.unravel_index(np.argmax(np.nan_to_num(off, nan=np.inf)), off.shape)
        assert off[worst] <= 0, (
            f"{what}: element {tuple(map(int, worst))} is {reals[worst]}, expected {self.values[worst]} "
            f"within {self.bound[worst]:.3g}; {int((off > 0).sum())} of {off.size} are off"
        )


class Problem:
    """Inputs of all ranks. `exact`: small whole numbers, whose sums are exact in whatever order."""

    def __init__(self, world: int, sizes: dict[str, int], *, exact: bool = False, seed: int = 0) -> None:
        self.world, self.sizes, self.exact = world, sizes, exact
        self._random = np.random.default_rng(seed)
        self._steps = sizes[KERNEL["k"]["dim"]] if KERNEL["k"] else 1
        self.inputs: list[dict[str, Bits]] = [{} for _ in range(world)]
        for name, tensor in TENSORS.items():
            if name in (OUTPUT, KEPT):
                continue
            whole = to_bits(self._values(tensor["role"], tuple(sizes[dim] for dim in tensor["shape"])))
            for rank in range(world):
                if tensor["shard"] is not None:
                    self.inputs[rank][name] = whole[self._part(tensor, rank)].copy()
                elif rank == 0 or self._added_once(tensor):
                    self.inputs[rank][name] = whole
                else:  # each rank has its own
                    self.inputs[rank][name] = to_bits(self._values(tensor["role"], whole.shape))

    @staticmethod
    def _added_once(tensor: dict[str, Any]) -> bool:
        """Whether it is added to a sum over the ranks: the same everywhere."""
        return tensor["role"] in ("bias", "residual") and KERNEL["reduce"] != "none"

    def output_shape(self, rank: int) -> tuple[int, ...]:
        """The shape of a rank's part of the output."""
        tensor = TENSORS[OUTPUT]
        shape = [self.sizes[dim] for dim in tensor["shape"]]
        if tensor["shard"] is not None:
            piece = part(shape[tensor["shard"]], rank, self.world)
            shape[tensor["shard"]] = piece.stop - piece.start
        return tuple(shape)

    def expected(self) -> list[Expected]:
        """What every rank must find."""
        if KERNEL["collective"]:
            return self._moved()
        sums = [self._product(rank, "weight") for rank in range(self.world)]
        if KERNEL["reduce"] != "none":
            total, error = (np.sum(parts, axis=0) for parts in zip(*sums, strict=True))
            if KERNEL["partial"] == "element":  # a summand is rounded before it travels
                error = error + ROUNDING * np.sum([np.abs(s) for s, _ in sums], axis=0)
            blocks = [self._output_rows(rank) for rank in range(self.world)]
            sums = [(total[rows], error[rows]) for rows in blocks]
        expected = [self._stored(rank, *sums[rank]) for rank in range(self.world)]
        if KEPT is None:
            return expected
        rows = np.concatenate([given[BY_ROLE["rows"]] for given in self.inputs])
        return [replace(of_rank, kept=rows) for of_rank in expected]

    def _moved(self) -> list[Expected]:
        """Of a collective alone: its input, or the sum of all, cut as the output is."""
        given = TENSORS[BY_ROLE["rows"]]
        parts = [to_reals(inputs[BY_ROLE["rows"]]) for inputs in self.inputs]
        if given["shard"] is not None:
            whole = np.concatenate(parts, axis=given["shard"])
            error = np.zeros_like(whole)
        else:  # summands
            whole, size = np.sum(parts, axis=0), np.sum(np.abs(parts), axis=0)
            error = self.world * _SUM_ROUNDING * size + ROUNDING * np.abs(whole) + SMALLEST
        if self.exact:
            whole, error = to_reals(to_bits(whole)), np.zeros_like(whole)
        cuts = [self._part(TENSORS[OUTPUT], rank) for rank in range(self.world)]
        return [Expected(whole[cut], error[cut]) for cut in cuts]

    def _part(self, tensor: dict[str, Any], rank: int) -> tuple[slice, ...]:
        axes = [slice(None)] * len(tensor["shape"])
        if tensor["shard"] is not None:
            axis = tensor["shard"]
            axes[axis] = part(self.sizes[tensor["shape"][axis]], rank, self.world)
        return tuple(axes)

    def _output_rows(self, rank: int) -> slice:
        return self._part(TENSORS[OUTPUT], rank)[0]

    def _values(self, role: str, shape: tuple[int, ...]) -> Reals:
        if not self.exact:
            scale = min(1.0, _LONG / self._steps) ** 0.5 if role == "rows" else 1.0
            return scale * self._random.standard_normal(shape)
        if role in ("bias", "residual"):
            return self._random.integers(-8, 9, shape).astype(np.float64)
        values = self._random.choice([-1.0, 1.0], shape)
        if role == "rows":
            values *= self._random.random(shape) < _NON_ZERO / self._steps
        return values

    def _product(self, rank: int, role: str) -> tuple[Reals, Reals]:
        """The sums of a rank and their errors."""
        rows = [to_reals(given[BY_ROLE["rows"]]) for given in self.inputs]
        a = np.concatenate(rows) if KERNEL["gather"] else rows[rank]
        b = to_reals(self.inputs[rank][BY_ROLE[role]])
        return a @ b.T, _SUM_ROUNDING * np.sqrt(self._steps) * (np.abs(a) @ np.abs(b).T)

    def _stored(self, rank: int, sums: Reals, error: Reals) -> Expected:
        given = self.inputs[rank]
        if KERNEL["silu_mul"]:
            up, up_error = self._product(rank, "up")
            silu = sums / (1 + np.exp(-sums))
            error = 1.2 * error * (np.abs(up) + up_error) + np.abs(silu) * up_error
            sums = silu * up
            error = error + 2.0**-20 * np.abs(sums)
        for role in ("bias", "residual"):
            if KERNEL[role]:
                sums = sums + to_reals(given[BY_ROLE[role]])
        if self.exact:
            rounded = to_reals(to_bits(sums))
            return Expected(rounded, np.zeros_like(rounded))
        return Expected(sums, (error + ROUNDING * (np.abs(sums) + error)) + SMALLEST)
