"""The residual of a product of which every rank has a summand: added once, to the sum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kgen.ir.kernel.all_reduce import AllReduce
from kgen.ir.kernel.dims import Dims
from kgen.ir.kernel.matmul import Matmul
from kgen.ir.kernel.operator import KernelOperator, Mismatch
from kgen.ir.kernel.reduce_scatter import ReduceScatter
from kgen.ir.kernel.tensor import TensorType


def misplaced_residuals(
    ops: Sequence[KernelOperator], types: Mapping[str, TensorType | None], dims: Dims
) -> Iterator[tuple[Matmul, Mismatch]]:
    """Residuals that do not lie like the sum to which they are added, and whose they are.

    Who has rows of the sum needs those of the residual: after a reduce_scatter a rank has its own rows, after
    an all_reduce all. A type that is None or missing is not known, and nothing is said about it.
    """
    for product in ops:
        if not isinstance(product, Matmul) or product.residual is None:
            continue
        adds = (op for op in ops if isinstance(op, ReduceScatter | AllReduce) and op.x == product.out)
        op = next(adds, None)
        summand, given = types.get(product.out), types.get(product.residual)
        total = None if op is None else types.get(op.out)
        if op is None or total is None or summand is None or given is None or not summand.partial:
            continue
        if not given.agrees(total, dims):
            message = f"{product.kind}: '{product.residual}' is {given}"
            expected = f"{total}, as '{op.out}', the sum to which it is added once"
            yield product, Mismatch("residual", message, expected)
