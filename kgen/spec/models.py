"""The structure of a spec file, as pydantic models. What the names in it mean is checked by the frontend."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, PrivateAttr, WithJsonSchema

from kgen.diagnostics import Span
from kgen.spec.document import At, Document
from kgen.spec.fields import (
    Count,
    ModelName,
    Name,
    OptionalCount,
    OptionalName,
    RangeField,
    Size,
    Sources,
    describe,
    fault,
)
from kgen.spec.ops import GraphItem, Node


def _version(value: object) -> int:
    if isinstance(value, bool) or value != 1:
        raise fault(f"this is {describe(value)}, this kgen reads version 1", expected="kgen: 1")
    return 1


def _kind(value: object) -> str:
    if value == "kernel":
        raise fault("kernels cannot be compiled yet", expected="kind: model")
    if value != "model":
        raise fault(f"unknown kind: this is {describe(value)}", expected="model or kernel")
    return "model"


def _config(value: object) -> str | dict[str, Any]:
    if isinstance(value, dict) or (isinstance(value, str) and value):
        return value
    raise fault(f"this is {describe(value)}", expected="the path of a config.json, or its contents")


class RuntimeSpec(Node):
    """What the library accepts at run time; `kgen.ir.graph.Runtime` describes the fields."""

    batch: RangeField
    context: RangeField
    kv_page: Count
    rows: OptionalCount = None
    workers: OptionalCount = None


class TensorSpec(Node):
    """A weight when it has a `source`, else an activation.

    `repeat` makes one weight for each iteration of that dim; `{i}` in a source is the iteration.
    """

    shape: Annotated[list[Size], Field(min_length=1, max_length=2)]
    dtype: Literal["bf16", "f32", "i32"]
    source: Annotated[Sources | None, Field()] = None
    repeat: OptionalName = None


class FromSpec(Node):
    """Where the dims, tensors and graph come from when they are not written out."""

    hf_config: Annotated[
        str | dict[str, Any],
        PlainValidator(_config),
        WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "object"}]}),
    ]


class ModelSpec(Node):
    """A spec of a language model: either dims, tensors and graph, or `from`."""

    kgen: Annotated[int, PlainValidator(_version), WithJsonSchema({"const": 1})]
    kind: Annotated[str, PlainValidator(_kind), WithJsonSchema({"enum": ["model"]})]
    name: ModelName
    runtime: RuntimeSpec
    origin: Annotated[FromSpec | None, Field(alias="from")] = None
    dims: dict[Name, Size] = Field(default_factory=dict)
    tensors: dict[Name, TensorSpec] = Field(default_factory=dict)
    graph: list[GraphItem] = Field(default_factory=list)

    _document: Document = PrivateAttr(default_factory=lambda: Document("<spec>"))
    _config: Document | None = PrivateAttr(default=None)

    @property
    def document(self) -> Document:
        """The places of this spec's keys and values."""
        return self._document

    @property
    def config(self) -> Document | None:
        """The Hugging Face config that `from` names, with its own places."""
        return self._config

    def attach(self, document: Document, config: Document | None) -> ModelSpec:
        """This spec, told where it was read from."""
        self._document = document
        self._config = config
        return self

    def span(self, *path: str | int) -> Span:
        """Where the value at a path stands, for example span("graph", 3, "in", 0)."""
        return self._document.value(path)

    def key_span(self, path: At) -> Span:
        """Where the key at a path stands."""
        return self._document.key(path)
