"""A kernel's spec to its graph: names looked up, types inferred, everything checked."""

from __future__ import annotations

from kgen.diagnostics import Diagnostic, SpecError
from kgen.frontend.kernel.flow import Flow
from kgen.frontend.kernel.names import check_names
from kgen.frontend.kernel.overlap import check_overlap, overlap_of
from kgen.frontend.kernel.rules import RULES, key_of
from kgen.frontend.kernel.sizes import check_sizes
from kgen.frontend.kernel.structure import check_structure, unsupported
from kgen.frontend.kernel.tensors import Tensors, extent_of
from kgen.ir.kernel.added_once import misplaced_residuals
from kgen.ir.kernel.dims import Range
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.operator import KernelOperator
from kgen.ir.kernel.tensor import KernelTensor, TensorType
from kgen.spec import kernel_ops as ops
from kgen.spec.document import At
from kgen.spec.kernel import KernelSpec


def build_kernel(spec: KernelSpec) -> KernelGraph:
    """The graph of a kernel's spec. SpecError holds every error found."""
    builder = _Builder(spec)
    errors = builder.check()
    if errors:
        raise SpecError(errors)
    return builder.graph()


def find_kernel_errors(spec: KernelSpec) -> list[Diagnostic]:
    """What is wrong with the meaning of a kernel's spec, which may have gaps."""
    return _Builder(spec).check()


class _Builder:
    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.tensors = Tensors(spec)
        self.flow = Flow(self.tensors)
        world = extent_of(spec.world)
        self.world = Range(world, world) if isinstance(world, int) else world
        self.ops: list[KernelOperator] = []
        self.places: dict[str, At] = {}  # of operators, by name
        self.names: set[str] = set()

    def check(self) -> list[Diagnostic]:
        """Make the operators; what is wrong with the spec."""
        for i, op in enumerate(self.spec.graph):
            self._add(("graph", i), op)
        for product, (slot, message, expected) in misplaced_residuals(
            self.ops, self.flow.types, self.tensors.dims
        ):
            self.tensors.error((*self.places[product.name], *key_of(product, slot)), message, expected)
        self.flow.check_outputs()
        return [
            *check_structure(self.spec),
            *check_overlap(self.spec),
            *check_sizes(self.spec, self.tensors.dims, self.world, self._typed()),
            *self.tensors.diagnostics,
            *self.tensors.unused_dims(),
            *check_names(self.spec),
            *self.flow.unused(),
        ]

    def graph(self) -> KernelGraph:
        """The graph, once `check` has found nothing wrong."""
        spec = self.spec
        return KernelGraph(
            spec.name,
            self.world,
            self.tensors.dims,
            tuple(self._typed()),
            tuple(self.ops),
            tuple(spec.outputs),
            spec.deterministic,
            overlap_of(spec.overlap),
        )

    def _typed(self) -> list[KernelTensor]:
        """Every tensor with a known type: declared ones first, then the others as they are written."""
        types = {**self.tensors.declared, **self.flow.types}
        return [KernelTensor(name, type_) for name, type_ in types.items() if type_ is not None]

    def _add(self, path: At, op: ops.KernelOpSpec) -> None:
        operator = RULES[type(op)](self._name(op.op), op) if self._counted(path, op) else None
        reads = operator.reads if operator else {}
        types: dict[str, TensorType] = {}
        for at, name in self._operands(path, op):
            type_ = self.flow.read_at(at, name, op.out)
            if type_ is not None:
                types[name] = type_
        named = [name for _, name in self._operands(path, op)]
        if not self.flow.write_at((*path, "out"), op.out, named, op.op):
            return
        self.flow.types[op.out] = self.tensors.declared.get(op.out)
        missing = list(unsupported(op, types.get(named[0])))
        for key, message, expected in missing:
            self.tensors.error((*path, *key), message, expected)
        if operator and not missing and types.keys() >= set(reads.values()):
            self._infer(path, op, operator, types)
            self.ops.append(operator)
            self.places[operator.name] = path

    def _infer(
        self, path: At, op: ops.KernelOpSpec, operator: KernelOperator, types: dict[str, TensorType]
    ) -> None:
        """Check the operands, of which all types are known, and give `out` its type."""
        declared = self.tensors.declared.get(op.out)
        if declared is not None:
            types[op.out] = declared
        inferred, mismatches = operator.infer(types, self.tensors.dims)
        for slot, message, expected in mismatches:
            self.tensors.error((*path, *key_of(operator, slot)), message, expected)
        if inferred and declared and not inferred.agrees(declared, self.tensors.dims):
            self._mismatch_of_declared(op, declared, inferred)
        self.flow.types[op.out] = declared or inferred

    def _counted(self, path: At, op: ops.KernelOpSpec) -> bool:
        """Whether a matmul has as many operands as its activation wants."""
        if not isinstance(op, ops.MatmulOp) or len(op.inputs) == (3 if op.activation else 2):
            return True
        what = f" with {op.activation}" if op.activation else " without an activation"
        expected = "[x, gate, up]" if op.activation else "[a, b], or activation: silu_mul"
        self.tensors.error((*path, "in"), f"a matmul{what} has {len(op.inputs)} operands", expected)
        return False

    def _operands(self, path: At, op: ops.KernelOpSpec) -> list[tuple[At, str]]:
        """The tensors that are named as operands, and where."""
        if not isinstance(op, ops.MatmulOp):
            return [((*path, "in"), op.inputs)]
        found: list[tuple[At, str]] = [((*path, "in", i), name) for i, name in enumerate(op.inputs)]
        named = (("bias", op.bias), ("residual", op.residual))
        return found + [((*path, key), name) for key, name in named if name is not None]

    def _name(self, kind: str) -> str:
        """The operator's kind, numbered where there are more of them."""
        name, number = kind, 1
        while name in self.names:
            number += 1
            name = f"{kind}_{number}"
        self.names.add(name)
        return name

    def _mismatch_of_declared(self, op: ops.KernelOpSpec, declared: TensorType, inferred: TensorType) -> None:
        at: At = ("tensors", op.out)
        message = f"'{op.out}' is declared as {declared}, but {op.op} writes {inferred}"
        if declared.dtype != inferred.dtype:
            self.tensors.error((*at, "dtype"), message, f"dtype: {inferred.dtype}")
        elif not declared.same_shape(inferred, self.tensors.dims):
            self.tensors.error((*at, "shape"), message)
        else:
            part = "partial" if inferred.shard is None and declared.shard is None else "shard"
            shard = f"shard: {{axis: {inferred.shard}}}" if inferred.shard is not None else "no shard"
            partial = "partial: true" if inferred.partial else "no partial: true"
            expected = partial if part == "partial" or inferred.partial else shard
            span = self.spec.span(*at, part)
            if (*at, part) not in self.spec.document.values:
                span = self.spec.key_span(at)
            self.tensors.diagnostics.append(Diagnostic(span, message, expected))
