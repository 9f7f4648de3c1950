"""What specs of every kind have: a version, a kind, a name, and the places of all that is written in them."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, PrivateAttr, WithJsonSchema

from kgen.diagnostics import Span, nearest
from kgen.spec.document import At, Document
from kgen.spec.fields import ModelName, describe, fault
from kgen.spec.ops import Node
from kgen.spec.salvage import Gaps

KINDS = ("model", "kernel")


def _version(value: object) -> int:
    if isinstance(value, bool) or value != 1:
        raise fault(f"this is {describe(value)}, this kgen reads version 1", expected="kgen: 1")
    return 1


def kind_is(kind: str) -> tuple[Any, ...]:
    """The annotations of a `kind` field that must have this value."""

    def check(value: object) -> str:
        if value != kind:
            hint = nearest(value, KINDS) if isinstance(value, str) else ""
            raise fault(f"this is {describe(value)}", expected=" or ".join(KINDS), hint=hint)
        return kind

    return PlainValidator(check), WithJsonSchema({"enum": [kind]})


class PlacedSpec(Node):
    """A spec that knows where it was read from."""

    kgen: Annotated[int, PlainValidator(_version), WithJsonSchema({"const": 1})] = Field(examples=[1])
    kind: str
    name: ModelName

    _document: Document = PrivateAttr(default_factory=lambda: Document("<spec>"))
    _gaps: Gaps = PrivateAttr(default=Gaps())

    @property
    def document(self) -> Document:
        """The places of this spec's keys and values."""
        return self._document

    @property
    def gaps(self) -> Gaps:
        """What was dropped from the spec because it was wrong; empty in a spec without errors."""
        return self._gaps

    def attach(self, document: Document, gaps: Gaps | None = None) -> Self:
        """This spec, told where it was read from."""
        self._document = document
        self._gaps = gaps or Gaps()
        return self

    def span(self, *path: str | int) -> Span:
        """Where the value at a path stands, for example span("graph", 3, "in", 0)."""
        return self._document.value(path)

    def key_span(self, path: At) -> Span:
        """Where the key at a path stands."""
        return self._document.key(path)
