"""Which operators make one kernel, and which of their forms the generated kernels have."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.diagnostics import Diagnostic
from kgen.ir.kernel.tensor import TensorType
from kgen.spec import kernel_ops as ops
from kgen.spec.document import At
from kgen.spec.kernel import KernelSpec

SHAPES = "one collective, or [all_gather,] matmul [, reduce_scatter or all_reduce]"

Fault = tuple[At, str, str]  # where, what, expected


def check_structure(spec: KernelSpec) -> list[Diagnostic]:
    """Operators that do not fit to the others. Nothing is said when some were dropped."""
    if spec.gaps.graph:
        return []
    known = {*spec.tensors, *spec.gaps.names, *(op.out for op in spec.graph)}
    return [
        Diagnostic(spec.span("graph", *at), message, expected)
        for at, message, expected in _misfits(spec.graph, known)
    ]


def unsupported(op: ops.KernelOpSpec, first: TensorType | None) -> Iterator[Fault]:
    """What the language has and generated kernels do not yet; `first` is the type of the first operand."""
    if isinstance(op, ops.AllGatherOp | ops.ReduceScatterOp) and op.axis != 0:
        yield ("axis",), f"{op.op} on axis {op.axis} is not there yet", "axis: 0"
    if isinstance(op, ops.MatmulOp):
        if op.transpose != (False, True):
            flags = ", ".join(str(flag).lower() for flag in op.transpose)
            expected = "transpose: [false, true], with the weights stored as [N, K]"
            yield ("transpose",), f"a matmul with transpose: [{flags}] is not there yet", expected
    elif first is not None and len(first.shape) == 1:
        yield ("in",), f"{op.op} of a vector is not there yet: '{op.inputs}' is {first}", "a matrix"


def _misfits(graph: list[ops.KernelOpSpec], known: set[str]) -> Iterator[Fault]:
    """Operators that do not fit; names that are not `known` are errors already."""
    products = [i for i, op in enumerate(graph) if isinstance(op, ops.MatmulOp)]
    if not products:
        for i, op in enumerate(graph[1:], 1):
            message = f"{op.op} does not fit: a kernel without a matmul is one collective"
            yield (i, "op"), message, SHAPES
        return
    first = products[0]
    product = graph[first]
    assert isinstance(product, ops.MatmulOp)
    for i, op in enumerate(graph):
        if i == first:
            continue
        if isinstance(op, ops.MatmulOp):
            yield (i, "op"), "a second matmul does not fit: a kernel has one", SHAPES
        elif i < first and not isinstance(op, ops.AllGatherOp):
            yield (i, "op"), f"{op.op} before the matmul does not fit", SHAPES
        elif i > first and not isinstance(op, ops.ReduceScatterOp | ops.AllReduceOp):
            yield (i, "op"), f"{op.op} after the matmul does not fit", SHAPES
        elif (i, first) not in ((0, 1), (first + 1, first)):
            yield (i, "op"), f"another collective, {op.op}, does not fit", SHAPES
        elif isinstance(op, ops.AllGatherOp):
            if op.out == product.inputs[0] or product.inputs[0] not in known:
                continue
            message = f"all_gather does not fit: the first operand of the matmul is '{product.inputs[0]}'"
            yield (i, "out"), message, f"out: {product.inputs[0]}"
        elif isinstance(op, ops.ReduceScatterOp | ops.AllReduceOp):
            if op.inputs == product.out or op.inputs not in known:
                continue
            message = f"{op.op} does not fit: it reads '{op.inputs}', and the matmul writes '{product.out}'"
            yield (i, "in"), message, f"in: {product.out}"
