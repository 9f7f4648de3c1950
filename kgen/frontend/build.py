"""A spec to the operator graph: repeats expanded, shapes and dtypes inferred, everything checked."""

from __future__ import annotations

from dataclasses import replace

from kgen.diagnostics import Diagnostic, SpecError
from kgen.frontend.hf import written_out
from kgen.frontend.names import ADVANCE, full_name, labels
from kgen.frontend.operands import Flow, Site
from kgen.frontend.rules import RULES
from kgen.frontend.sizes import ROWS, Dims, resolve_runtime
from kgen.frontend.structure import GRAPH, check_structure, walk
from kgen.frontend.tensors import Tensors, Type
from kgen.ir.attention import Attention
from kgen.ir.embedding import Embedding
from kgen.ir.graph import Graph, Runtime
from kgen.ir.linear import Logits
from kgen.ir.operator import Operator
from kgen.ir.sample import Advance, Sample
from kgen.ir.tensor import DType
from kgen.spec import ops
from kgen.spec.document import At
from kgen.spec.models import ModelSpec

# Operators, layers and tensors are numbered with 16 bits in a generated project.
MAX_OPERATORS = 32767
MAX_TENSORS = 65535
# `sample` adds up probabilities of at most 2^40 units in 64 bits.
MAX_VOCABULARY = 2**24 - 1


def build_graph(spec: ModelSpec, *, batch: int | None = None, workers: int | None = None) -> Graph:
    """The graph of a spec. `batch` and `workers` replace the spec's. SpecError holds every error found."""
    errors, builder = _check(spec, batch, workers)
    if errors or builder is None:
        raise SpecError(errors)
    return builder.graph()


def find_errors(spec: ModelSpec, *, batch: int | None = None, workers: int | None = None) -> list[Diagnostic]:
    """What is wrong with the meaning of a spec, which may have gaps."""
    return _check(spec, batch, workers)[0]


def _check(
    spec: ModelSpec, batch: int | None, workers: int | None
) -> tuple[list[Diagnostic], _Builder | None]:
    runtime, errors = resolve_runtime(spec, batch, workers)
    try:
        builder = _Builder(written_out(spec), runtime)
    except SpecError as error:
        return errors + error.diagnostics, None
    return errors + builder.check(), builder


class _Builder:
    def __init__(self, spec: ModelSpec, runtime: Runtime) -> None:
        self.spec = spec
        self.runtime = runtime
        self.dims = Dims(spec)
        self.tensors = Tensors(spec, self.dims, runtime)
        self.flow = Flow(frozenset(op.out for _, op, _ in walk(spec)))
        embedding = next((op for _, op, _ in walk(spec) if isinstance(op, ops.EmbeddingOp)), None)
        self.tokens = embedding.inputs[0] if embedding else "tokens"
        self.labels = labels(spec)
        self.ops: list[Operator] = []
        self.kv_layers = 0

    def check(self) -> list[Diagnostic]:
        """Make the operators; what is wrong with the spec."""
        errors = check_structure(self.spec)
        self._start()
        for i, item in enumerate(self.spec.graph):
            if isinstance(item, ops.RepeatSpec):
                self._repeat(item, (*GRAPH, i))
            else:
                self._add((*GRAPH, i), item, -1, None)
        errors += self.dims.diagnostics + self.tensors.diagnostics + self._unused()
        if not errors and not self.spec.gaps.names and not self.spec.gaps.graph:
            errors += self._check_vocabulary() + self._check_cache() + self._check_counts()
        return errors

    def graph(self) -> Graph:
        """The graph, once `check` has found nothing wrong."""
        sampled = next(op for op in self.ops if isinstance(op, Sample)).out
        advance = Advance(ADVANCE, -1, sampled, self.tokens)
        used = tuple(self.tensors.used.values())
        return Graph(self.spec.name, self.runtime, dict(self.dims.values), used, (*self.ops, advance))

    def _start(self) -> None:
        """Make the tokens of the step, which the engine and the advance task write."""
        tokens = self.tokens
        type_ = Type((ROWS,), DType.I32)
        self.tensors.activations[tokens] = type_
        self.tensors.use_activation(tokens, type_)
        self.flow.holds[tokens] = ()
        declared = self.tensors.declared.get(tokens)
        if declared and not declared.fits(type_):
            part = "dtype" if declared.dtype != type_.dtype else "shape"
            self.tensors.error(("tensors", tokens, part), f"'{tokens}' is declared as {declared}", str(type_))

    def _repeat(self, item: ops.RepeatSpec, path: At) -> None:
        if item.repeat not in self.dims.names:
            self.tensors.unknown_dim((*path, "repeat"), item.repeat)
        count = self.dims.values.get(item.repeat, 1)
        total = len(self.ops) + count * len(item.do)
        if total > MAX_OPERATORS:
            message = f"{item.repeat} is {count}, which makes {total} operators"
            self.tensors.error((*path, "repeat"), message, f"at most {MAX_OPERATORS}")
            count = 1
        for layer in range(count):
            for j, op in enumerate(item.do):
                self._add((*path, "do", j), op, layer, item.repeat)

    def _add(self, path: At, op: ops.OpSpec, layer: int, repeat: str | None) -> None:
        name = full_name(self.labels[path], repeat, layer)
        site = Site(self.tensors, self.flow, path, op.op, name, layer, repeat)
        operator = RULES[type(op)](site, op)
        if isinstance(operator, Attention):
            operator = replace(operator, kv_layer=self.kv_layers)
            self.kv_layers += 1
        self.ops.append(operator)

    def _unused(self) -> list[Diagnostic]:
        errors = [
            Diagnostic(self.spec.key_span(("tensors", name)), f"tensor '{name}' is never used")
            for name in self.spec.tensors
            if name not in self.tensors.mentioned | self.spec.gaps.names
        ]
        for path, name in self.flow.written.items():
            if path not in self.flow.read and name not in self.spec.gaps.names:
                errors.append(
                    Diagnostic(self.spec.span(*path), f"'{name}' is written here, but nothing reads it")
                )
        return errors

    def _check_vocabulary(self) -> list[Diagnostic]:
        """A sampled token must be a row of the embedding's table."""
        by_name = self.tensors.used
        table = next(by_name[op.table] for op in self.ops if isinstance(op, Embedding))
        path, weight = next((self._path(op), by_name[op.weight]) for op in self.ops if isinstance(op, Logits))
        if weight.shape[0] > MAX_VOCABULARY:
            message = f"a vocabulary of {weight.shape[0]} tokens is too large"
            return [Diagnostic(self.spec.span(*path, "in", 1), message, f"at most {MAX_VOCABULARY}")]
        if table.shape[0] == weight.shape[0]:
            return []
        message = f"logits scores {weight.shape[0]} tokens, but the embedding's table has {table.shape[0]}"
        return [Diagnostic(self.spec.span(*path, "in", 1), message)]

    def _check_counts(self) -> list[Diagnostic]:
        """Numbers that must fit into the tables of a generated project. Also counts the advance task."""
        counts = (
            (GRAPH, len(self.ops) + 1, "operators", MAX_OPERATORS),
            (("tensors",), len(self.tensors.used), "tensors", MAX_TENSORS),
        )
        return [
            Diagnostic(self.spec.key_span(at), f"the model has {count} {what}", f"at most {limit}")
            for at, count, what, limit in counts
            if count > limit
        ]

    def _path(self, op: Operator) -> At:
        return next(path for path, label in self.labels.items() if label == op.name)

    def _check_cache(self) -> list[Diagnostic]:
        """All attention operators share one cache, so they agree on its heads."""
        first: Attention | None = None
        errors = []
        for path, op, repeat in walk(self.spec):
            if not isinstance(op, ops.AttentionOp):
                continue
            name = full_name(self.labels[path], repeat, 0)
            built = next(o for o in self.ops if o.name == name and isinstance(o, Attention))
            first = first or built
            if (built.kv_heads, built.head) != (first.kv_heads, first.head):
                message = f"attention with {built.kv_heads} KV heads of {built.head} cannot share the cache"
                expected = f"{first.kv_heads} KV heads of {first.head}, as in '{first.name}'"
                errors.append(Diagnostic(self.spec.span(*path, "op"), message, expected))
        return errors
