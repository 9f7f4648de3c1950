"""Matrix product, with a bias, a residual or a gated activation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from kgen.ir.kernel.arithmetic import Arithmetic, Ranks
from kgen.ir.kernel.dims import Axis, Dims, same
from kgen.ir.kernel.operator import Cost, KernelOperator, Mismatch, Sizes, Types
from kgen.ir.kernel.tensor import TensorType
from kgen.ir.linear import silu
from kgen.ir.machine import Array
from kgen.ir.tensor import DType

MATRIX_DTYPES = (DType.BF16, DType.F16)


@dataclass(frozen=True)
class Matmul(KernelOperator):
    """out = x weight (+ bias) (+ residual), or with `up`: silu(x weight) * (x up) (+ residual).

    x [M, K], weight and up [K, N], bias [N], residual and out [M, N]; `transpose` says which of x and of the
    weights are stored the other way round. When the ranks split K, or out is declared to be partial and each
    rank has its own K, out is the rank's summand of the product. Bias and residual are no summands: they are
    added once, to the sum (`added_once.py` says how the residual lies then), and the same on all ranks that
    have them whole.
    """

    x: str
    weight: str
    transpose: tuple[bool, bool] = (False, False)
    up: str | None = None
    bias: str | None = None
    residual: str | None = None

    kind: ClassVar[str] = "matmul"
    communicates: ClassVar[bool] = False

    @property
    def reads(self) -> dict[str, str]:
        """x, the weights, and what is added."""
        named = {slot: getattr(self, slot) for slot in ("x", "weight", "up", "bias", "residual")}
        return {slot: name for slot, name in named.items() if name is not None}

    def infer(self, types: Types, dims: Dims) -> tuple[TensorType | None, list[Mismatch]]:
        """Matrices of one dtype that agree on K, and summands that look like out."""
        wrong = list(self._unusable(types))
        if wrong:
            return None, wrong
        x, weight = types[self.x], types[self.weight]
        (m, m_split), (k, k_split) = _axes(x, transposed=self.transpose[0])
        (weight_k, weight_k_split), (n, n_split) = _axes(weight, transposed=self.transpose[1])
        if x.dtype != weight.dtype or not same(dims, k, weight_k) or k_split != weight_k_split:
            shard = (k_split, weight_k_split)
            return None, [self._cannot_take("weight", types, self._partner(x, k, shard))]
        if m_split and n_split:
            message = f"{self.kind}: '{self.x}' has other rows on each rank and '{self.weight}' other columns"
            return None, [Mismatch("weight", message, "one of them whole on each rank")]
        declared = types.get(self.out)
        partial = k_split or (declared is not None and declared.partial)
        if partial and (m_split or n_split):
            what, name = ("rows", self.x) if m_split else ("columns", self.weight)
            message = f"'{self.out}' cannot be partial: each rank has other {what} of it"
            return None, [Mismatch("out", message, f"'{name}' whole on each rank, or no partial: true")]
        out = TensorType((m, n), x.dtype, 0 if m_split else 1 if n_split else None, partial)
        return out, list(self._wrong_summands(types, dims, out))

    def evaluate(self, operands: Sequence[Ranks], types: Types, arithmetic: Arithmetic) -> Ranks:
        """Accumulated without rounding, rounded once.

        Of what is added to summands each rank adds a share, so that their sum has it once.
        """
        by_slot = dict(zip(self.reads, operands, strict=True))
        if types[self.out].partial:
            added = [slot for slot in ("bias", "residual") if slot in by_slot]
            by_slot |= {slot: _shares(by_slot[slot], types[self.reads[slot]].shard) for slot in added}
        return [
            self._of_rank({slot: ranks[rank] for slot, ranks in by_slot.items()}, types, arithmetic)
            for rank in range(len(operands[0]))
        ]

    def cost(self, types: Types, sizes: Sizes) -> Cost:
        """One product, or two; every operand read once and out written once."""
        m, n = sizes.shape(types[self.out])
        k = prod(sizes.shape(types[self.x])) // m if m else 0
        flops = 2 * m * n * k * (1 if self.up is None else 2)
        read = sum(sizes.bytes(types[name]) for name in self.reads.values())
        return Cost(flops, read + sizes.bytes(types[self.out]), 0)

    def _of_rank(self, operands: dict[str, Array], types: Types, arithmetic: Arithmetic) -> Array:
        wide = {slot: np.asarray(array, dtype=np.float64) for slot, array in operands.items()}
        x = wide["x"].T if self.transpose[0] else wide["x"]
        product = x @ (wide["weight"].T if self.transpose[1] else wide["weight"])
        if self.bias is not None:
            product = product + wide["bias"]
        if self.up is not None:
            product = silu(product) * (x @ (wide["up"].T if self.transpose[1] else wide["up"]))
        if self.residual is not None:
            product = product + wide["residual"]
        out = types[self.out]
        return (arithmetic.summand if out.partial else arithmetic.store)(product, out.dtype)

    def _unusable(self, types: Types) -> Iterator[Mismatch]:
        """Operands that can be no matrix of a product, whatever the others are."""
        for slot in ("x", "weight", "up"):
            if slot not in self.reads:
                continue
            type_ = types[self.reads[slot]]
            if len(type_.shape) != 2 or type_.dtype not in MATRIX_DTYPES or type_.partial:
                yield self._cannot_take(slot, types, "a bf16 or f16 matrix that is not partial")

    def _partner(self, x: TensorType, k: Axis, split: tuple[bool, bool]) -> str:
        """The weight that would go with x, in words; `split`: whether ranks split K of x, and of it."""
        axis = 1 if self.transpose[1] else 0
        shape = f"[any, {k}]" if self.transpose[1] else f"[{k}, any]"
        shard = ""
        if split != (False, False):
            shard = f" sharded on axis {axis}" if split[0] else f" not sharded on axis {axis}"
        return f"{x.dtype} {shape}{shard}, to go with '{self.x}', {x}"

    def _wrong_summands(self, types: Types, dims: Dims, out: TensorType) -> Iterator[Mismatch]:
        weight = types[self.weight]
        if self.up is not None:
            if not types[self.up].agrees(weight, dims):
                yield self._cannot_take("up", types, f"{weight}, as '{self.weight}'")
            if out.partial:
                message = f"silu_mul needs whole products, but '{self.out}' is partial"
                yield Mismatch("activation", message, "no activation, or a contraction that is not split")
        if self.bias is not None and self.up is not None:
            yield Mismatch("bias", "silu_mul takes no bias", "no bias, or no activation")
        row = TensorType(out.shape[1:], out.dtype, 0 if out.shard == 1 else None)
        if self.bias is not None and not types[self.bias].agrees(row, dims):
            why = ", to be added once, to the sum over the ranks" if out.partial else ""
            yield self._cannot_take("bias", types, f"{row}{why}")
        if self.residual is not None and not out.partial and not types[self.residual].agrees(out, dims):
            yield self._cannot_take("residual", types, str(out))


def _shares(parts: Ranks, shard: int | None) -> Ranks:
    """What each rank adds of a tensor that all together add once: the first all of it, or each its block."""
    ranks = range(len(parts))
    if shard is None:
        return [parts[rank] if rank == 0 else np.zeros_like(parts[rank]) for rank in ranks]
    blocks = [[parts[r] if r == rank else np.zeros_like(parts[r]) for r in ranks] for rank in ranks]
    return [np.concatenate(of_rank, axis=shard) for of_rank in blocks]


def _axes(type_: TensorType, *, transposed: bool) -> list[tuple[Axis, bool]]:
    """The axes of a matrix as the product sees them, each with whether the ranks split it."""
    axes = [(axis, type_.shard == i) for i, axis in enumerate(type_.shape)]
    return axes[::-1] if transposed else axes
