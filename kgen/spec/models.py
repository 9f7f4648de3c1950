"""The structure of a spec file, as pydantic models. What the names in it mean is checked by the frontend."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, PrivateAttr, WithJsonSchema

from kgen.spec.document import Document
from kgen.spec.fields import (
    Count,
    Flag,
    ModelName,
    Name,
    OptionalCount,
    OptionalName,
    OptionalSources,
    RangeField,
    Size,
    describe,
    fault,
)
from kgen.spec.ops import GraphItem, Node
from kgen.spec.placed import PlacedSpec, kind_is


def _config(value: object) -> str | dict[str, Any]:
    if isinstance(value, dict) or (isinstance(value, str) and value):
        return value
    expected = "the path of a config.json or of its folder, or its contents"
    raise fault(f"this is {describe(value)}", expected=expected)


class RuntimeSpec(Node):
    """What the library accepts at run time."""

    batch: RangeField = Field(description="Sequences decoded at once.")
    context: RangeField = Field(description="Tokens of one sequence, prompt and output together.")
    kv_page: Count = Field(description="Tokens in one page of the KV cache, a multiple of 8.")
    rows: OptionalCount = Field(
        default=None, description="Tokens that one step can carry; the larger of batch and 16 when left out."
    )
    workers: OptionalCount = Field(
        default=None, description="SMs that the tasks are laid out for; 132 when left out."
    )
    worker: Literal["auto", "cluster", "general"] = Field(
        default="auto",
        description="What runs the model on a Hopper GPU: the cluster worker, which takes decoders of equal "
        "layers (`kgen explain` says whether this is one), or the general worker, which takes any graph and "
        "runs on every other target too; auto is cluster where it can.",
    )
    pipelining: Flag = Field(
        default=True,
        description="Whether the loader of the cluster worker runs ahead of the task that its SM works on; "
        "false is for measuring what that gives.",
    )
    attention: Literal["auto", "aot", "jit"] = Field(
        default="auto",
        description="How the cluster worker deals a step's attention to SMs: aot by position in the batch, "
        "jit by the lengths at run time; auto is jit.",
    )


class TensorSpec(Node):
    """A weight when it has a `source`, else an activation.

    `repeat` makes one weight for each iteration of that dim; `{i}` in a source is the iteration.
    """

    shape: Annotated[list[Size], Field(min_length=1, max_length=2)]
    dtype: Literal["bf16", "f32", "i32"]
    source: OptionalSources = None
    repeat: OptionalName = None


class FromSpec(Node):
    """Where the dims, tensors and graph come from when they are not written out."""

    hf_config: Annotated[
        str | dict[str, Any],
        PlainValidator(_config),
        WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "object"}]}),
    ]


class ModelSpec(PlacedSpec):
    """A spec of a language model: either dims, tensors and graph, or `from`."""

    kind: Annotated[str, *kind_is("model")] = Field(examples=["model"])
    name: ModelName = Field(examples=["my_model"])
    runtime: RuntimeSpec = Field(examples=[{"batch": "1..16", "context": "1..2048", "kv_page": 64}])
    origin: Annotated[FromSpec | None, Field(alias="from")] = None
    dims: dict[Name, Size] = Field(default_factory=dict)
    tensors: dict[Name, TensorSpec] = Field(default_factory=dict)
    graph: Annotated[list[GraphItem], Field(min_length=1)] = Field(default_factory=list)

    _config: Document | None = PrivateAttr(default=None)

    @property
    def config(self) -> Document | None:
        """The Hugging Face config that `from` names, with its own places."""
        return self._config

    def with_config(self, config: Document | None) -> ModelSpec:
        """This spec, told what `from` refers to."""
        self._config = config
        return self
