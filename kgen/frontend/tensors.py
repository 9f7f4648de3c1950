"""The tensors of a spec while its graph is read: what each is, and what has been written and read."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.diagnostics import Diagnostic, nearest, one_of
from kgen.frontend.sizes import BATCH, ROWS, Dims
from kgen.ir.graph import Runtime
from kgen.ir.tensor import DType, Space, Tensor
from kgen.spec.document import At
from kgen.spec.models import ModelSpec, TensorSpec

# None is a size that could not be worked out; whatever it is compared with, nothing more is said about it.
Axis = int | str | None


@dataclass(frozen=True, slots=True)
class Type:
    """Shape and dtype. The axes `rows` and `batch` stay names, so that they never match each other."""

    shape: tuple[Axis, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join('any' if a is None else str(a) for a in self.shape)}]"

    def fits(self, other: Type) -> bool:
        """Whether a tensor of this type may stand where `other` is wanted."""
        return (
            self.dtype == other.dtype
            and len(self.shape) == len(other.shape)
            and all(a is None or b is None or a == b for a, b in zip(self.shape, other.shape, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Weight:
    """A declared weight; `repeat` is the dim that there is one for each iteration of."""

    type: Type
    sources: tuple[str, ...]
    repeat: str | None


class Tensors:
    """Declared tensors, and the graph's tensors in the order of their first use."""

    def __init__(self, spec: ModelSpec, dims: Dims, runtime: Runtime) -> None:
        self.spec = spec
        self.dims = dims
        self.sizes = {ROWS: runtime.rows, BATCH: runtime.batch}
        self.diagnostics: list[Diagnostic] = []
        self.weights: dict[str, Weight] = {}
        self.declared: dict[str, Type] = {}
        self.activations: dict[str, Type] = {}
        self.used: dict[str, Tensor] = {}  # by the name in the graph
        self.mentioned: set[str] = set()  # by the name in the spec
        for name, tensor in spec.tensors.items():
            self._declare(name, tensor)
        self._check_sources()

    def error(self, at: At, message: str, expected: str = "", hint: str = "") -> None:
        """Record an error at the value of a path."""
        self.diagnostics.append(Diagnostic(self.spec.span(*at), message, expected, hint))

    def unknown_dim(self, at: At, name: str) -> None:
        """Record that the name at a path is not that of a dim."""
        self.error(at, f"unknown dim '{name}'", one_of(self.dims.names), nearest(name, self.dims.names))

    def use_weight(self, name: str, iteration: int) -> str:
        """Take a weight into the graph; its name there."""
        weight = self.weights[name]
        full = f"{weight.repeat}.{iteration}.{name}" if weight.repeat else name
        sources = tuple(source.replace("{i}", str(iteration)) for source in weight.sources)
        self._use(full, weight.type, Space.WEIGHT, sources)
        return full

    def use_activation(self, name: str, type_: Type) -> None:
        """Take an activation into the graph."""
        self._use(name, type_, Space.ACTIVATION, ())

    def _use(self, name: str, type_: Type, space: Space, sources: tuple[str, ...]) -> None:
        if name in self.used:
            return
        shape = tuple(self.sizes[a] if isinstance(a, str) else a or 0 for a in type_.shape)
        self.used[name] = Tensor(name, shape, type_.dtype, space, sources)

    def _declare(self, name: str, tensor: TensorSpec) -> None:
        at = ("tensors", name)
        if tensor.source is None:
            if tensor.repeat is not None:
                self.error((*at, "repeat"), f"'{name}' has no source, only weights repeat", "source: ...")
            self.declared[name] = Type(self._activation_shape(name, tensor), DType(tensor.dtype))
            return
        if tensor.dtype != "bf16":
            self.error((*at, "dtype"), f"weight '{name}' is {tensor.dtype}", "bf16")
        if tensor.repeat is not None and tensor.repeat not in self.dims.names:
            self.unknown_dim((*at, "repeat"), tensor.repeat)
        shape = [self.dims.evaluate(size, (*at, "shape", i)) for i, size in enumerate(tensor.shape)]
        self.weights[name] = Weight(Type(tuple(shape), DType.BF16), tensor.source, tensor.repeat)

    def _activation_shape(self, name: str, tensor: TensorSpec) -> tuple[Axis, ...]:
        at = ("tensors", name, "shape")
        first = tensor.shape[0].text.strip()
        if first not in (ROWS, BATCH):
            self.error(
                (*at, 0),
                f"'{name}' has no source, so it is an activation, but its first axis is {first}",
                "rows or batch",
            )
            return (None,) * len(tensor.shape)
        rest = [self.dims.evaluate(size, (*at, i)) for i, size in enumerate(tensor.shape) if i > 0]
        return (first, *rest)

    def _check_sources(self) -> None:
        owner: dict[str, str] = {}
        for name, weight in self.weights.items():
            for i, source in enumerate(weight.sources):
                at: At = ("tensors", name, "source")
                at = (*at, i) if (*at, i) in self.spec.document.values else at
                if "{" in source.replace("{i}", "") or "}" in source.replace("{i}", ""):
                    self.error(at, f"'{source}' has braces that are not {{i}}", "{i} for the iteration")
                elif weight.repeat and "{i}" not in source:
                    self.error(
                        at, f"'{name}' repeats, but its source is the same each time", "{i} in the source"
                    )
                elif not weight.repeat and "{i}" in source:
                    self.error(at, f"'{name}' does not repeat, but its source has {{i}}", "repeat: <dim>")
                elif source in owner:
                    self.error(at, f"'{source}' is already the source of tensor '{owner[source]}'")
                owner.setdefault(source, name)
