"""Operands of one operator: names looked up, types checked, reads and writes followed."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgen.diagnostics import nearest
from kgen.frontend.tensors import Axis, Tensors, Type
from kgen.ir.tensor import DType
from kgen.spec.document import At

UNKNOWN = Type((None, None), DType.F32)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as an operator sees it. `type` is None after an error, which ends the checks on it."""

    written: str  # the name in the spec
    name: str  # the name in the graph
    type: Type | None

    @property
    def rows(self) -> Axis:
        """The first axis, None if unknown."""
        return self.type.shape[0] if self.type else None

    @property
    def cols(self) -> Axis:
        """The last axis, None if unknown."""
        return self.type.shape[-1] if self.type else None


@dataclass
class Flow:
    """Which write each buffer holds, as the path of its `out`, and which writes have been read."""

    will_be_written: frozenset[str]
    holds: dict[str, At] = field(default_factory=dict)
    read: set[At] = field(default_factory=set)
    written: dict[At, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """One operator of the spec in one iteration: where it is written and what it may see."""

    tensors: Tensors
    flow: Flow
    path: At
    kind: str
    name: str
    layer: int  # iteration, -1 outside a repeat
    repeat: str | None

    def weight(self, name: str, key: At, shape: tuple[Axis, ...], partner: Operand | None = None) -> Operand:
        """A weight operand of this shape (None: any), which must match that of `partner`."""
        at = (*self.path, *key)
        self.tensors.mentioned.add(name)
        weight = self.tensors.weights.get(name)
        if weight is None:
            if not self._unknown(name, at):
                self.tensors.error(at, f"'{name}' is not a weight", "a tensor with a source")
            return Operand(name, name, None)
        if weight.repeat and weight.repeat != self.repeat:
            self._repeats_elsewhere(name, weight.repeat, at)
            return Operand(name, name, None)
        full = self.tensors.use_weight(name, self.layer)
        wanted = Type(shape, DType.BF16)
        return Operand(name, full, self._checked(name, at, weight.type, wanted, partner))

    def read(
        self, name: str, key: At, dtype: DType, shape: tuple[Axis, ...], partner: Operand | None = None
    ) -> Operand:
        """An activation operand of this dtype and shape (None: any)."""
        at = (*self.path, *key)
        self.tensors.mentioned.add(name)
        if name in self.tensors.weights:
            self.tensors.error(at, f"'{name}' is a weight", f"an activation, {Type(shape, dtype)}")
            return Operand(name, name, None)
        if name not in self.flow.holds:
            if not self._unknown(name, at):
                self.tensors.error(at, f"'{name}' is read before it is written")
            return Operand(name, name, None)
        self.flow.read.add(self.flow.holds[name])
        actual = self.tensors.activations[name]
        return Operand(name, name, self._checked(name, at, actual, Type(shape, dtype), partner))

    def write(
        self, name: str, dtype: DType, shape: tuple[Axis, ...], *, apart_from: tuple[Operand, ...] = ()
    ) -> str:
        """The output. It must be another buffer than the operands in `apart_from`, which tasks still read."""
        at = (*self.path, "out")
        self.tensors.mentioned.add(name)
        type_ = Type(shape, dtype)
        if name in self.tensors.weights:
            self.tensors.error(at, f"'{name}' is a weight and cannot be written", "an activation")
            return name
        if any(operand.written == name for operand in apart_from):
            self.tensors.error(
                at, f"{self.kind} cannot write '{name}' while its tasks still read it", "another tensor"
            )
            return name
        declared, before = self.tensors.declared.get(name), self.tensors.activations.get(name)
        if before is None and declared and not type_.fits(declared):
            self._mismatch_of_declared(name, declared, type_)
        if before and not type_.fits(before):
            self.tensors.error(
                at,
                f"'{name}' is {before} where it is written first, here it would be {type_}",
                "another tensor",
            )
            type_ = before
        self.tensors.activations[name] = type_
        self.tensors.use_activation(name, type_)
        self.flow.holds[name] = at
        self.flow.written[at] = name
        return name

    def _checked(self, name: str, at: At, actual: Type, wanted: Type, partner: Operand | None) -> Type | None:
        if actual.fits(wanted):
            return actual
        expected = str(wanted)
        if partner and partner.type:
            expected += f", to go with '{partner.written}', {partner.type}"
        self.tensors.error(at, f"{self.kind}: '{name}' is {actual}", expected)
        return None

    def _repeats_elsewhere(self, name: str, repeat: str, at: At) -> None:
        known = self.tensors.dims.names
        if repeat not in known or (self.repeat and self.repeat not in known):
            return  # said where that dim is named
        message = f"'{name}' repeats over {repeat}, but this operator does not"
        self.tensors.error(at, message, f"repeat: {repeat}")

    def _unknown(self, name: str, at: At) -> bool:
        """Whether no more can be said of a name: it is unknown, which is recorded, or in a dropped part."""
        tensors, flow = self.tensors, self.flow
        known = {*tensors.weights, *tensors.declared, *flow.will_be_written}
        if name in tensors.spec.gaps.names:
            return True
        if name in known:
            return False
        meant = nearest(name, sorted(known | tensors.spec.gaps.names))
        tensors.error(at, f"unknown tensor '{name}'", hint=meant)
        # It counts as used, or one mistake would make two errors.
        tensors.mentioned.add(meant)
        if meant in flow.holds:
            flow.read.add(flow.holds[meant])
        return True

    def _mismatch_of_declared(self, name: str, declared: Type, type_: Type) -> None:
        part = "dtype" if declared.dtype != type_.dtype else "shape"
        message = f"'{name}' is declared as {declared}, but {self.kind} writes {type_}"
        self.tensors.error(("tensors", name, part), message)
