"""The operators of the spec language, as they are written. `kgen.ir` says what they compute."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from kgen.spec.fields import GIVEN, Count, Name, OptionalName, OptionalPositive, OptionalSize, Positive


class Node(BaseModel):
    """A mapping of a spec: no unknown keys, immutable once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def operands(*names: str, optional: str = "") -> Any:
    """The field of a list of operands by these names, one more of which may follow."""
    lists = [names, (*names, optional)] if optional else [names]
    return Field(
        alias="in",
        min_length=len(names),
        max_length=len(lists[-1]),
        description=" or ".join(f"[{', '.join(each)}]" for each in lists),
    )


class EmbeddingOp(Node):
    """One row of the table per token."""

    op: Literal["embedding"]
    inputs: list[Name] = operands("tokens", "table")
    out: Name


class RmsNormOp(Node):
    """RMS normalization of each row."""

    op: Literal["rmsnorm"]
    inputs: list[Name] = operands("x", "weight")
    eps: Positive
    out: Name


class LinearOp(Node):
    """x times the transposed weight, plus the bias and `residual` if given."""

    op: Literal["linear"]
    inputs: list[Name] = operands("x", "weight", optional="bias")
    residual: OptionalName = None
    out: Name


class SwiGluOp(Node):
    """silu(x gate^T) * (x up^T)."""

    op: Literal["swiglu"]
    inputs: list[Name] = operands("x", "gate", "up")
    out: Name


class SiluMulOp(Node):
    """silu(gate) * up, element by element."""

    op: Literal["silu_mul"]
    inputs: list[Name] = operands("gate", "up")
    out: Name


class AddOp(Node):
    """a + b, element by element."""

    op: Literal["add"]
    inputs: list[Name] = operands("a", "b")
    out: Name


class RopeScaling(Node):
    """Llama 3's scaling of the low frequencies."""

    type: Literal["llama3"]
    factor: Positive
    low_freq_factor: Positive
    high_freq_factor: Positive
    original_context: Count


class RopeSpec(Node):
    """Rotary embedding of the whole head."""

    theta: Positive
    scaling: Annotated[RopeScaling | None, GIVEN] = None


class AttentionOp(Node):
    """`in: qkv`, the query, key and value heads side by side: causal attention over the KV cache.

    heads, kv_heads and head are the dims of those names when left out; scale is 1 / sqrt(head). Without
    `rope` positions are not encoded. `eps` belongs to the q and k norms.
    """

    op: Literal["attention"]
    inputs: Annotated[Name, Field(alias="in")]
    heads: OptionalSize = None
    kv_heads: OptionalSize = None
    head: OptionalSize = None
    rope: Annotated[RopeSpec | None, GIVEN] = None
    q_norm: OptionalName = None
    k_norm: OptionalName = None
    eps: OptionalPositive = None
    scale: OptionalPositive = None
    out: Name


class LogitsOp(Node):
    """Scores of the vocabulary for the rows that are sampled from."""

    op: Literal["logits"]
    inputs: list[Name] = operands("x", "weight")
    out: Name


class SampleOp(Node):
    """`in: logits`: the next token of each sequence; `out` is the tensor that the embedding reads."""

    op: Literal["sample"]
    inputs: Annotated[Name, Field(alias="in")]
    out: Name


OpSpec = EmbeddingOp | RmsNormOp | LinearOp | SwiGluOp | SiluMulOp | AddOp | AttentionOp | LogitsOp | SampleOp
OPERATORS: dict[str, type[Node]] = {
    str(model.model_fields["op"].annotation.__args__[0]): model for model in OpSpec.__args__
}
AnyOp = Annotated[OpSpec, Field(discriminator="op")]


class RepeatSpec(Node):
    """`do` once for each iteration of the dim named by `repeat`, with that iteration's weights."""

    repeat: Name
    do: Annotated[list[AnyOp], Field(min_length=1)]


def _tag(value: Any) -> str:
    """Which of the two kinds of graph items a mapping is; called on raw data and on models."""
    if isinstance(value, dict):
        return "a repeat" if "op" not in value and ("repeat" in value or "do" in value) else "an operator"
    return "a repeat" if isinstance(value, RepeatSpec) else "an operator"


# Tags with a blank cannot be mistaken for keys in the places that errors name.
GraphItem = Annotated[
    Annotated[AnyOp, Tag("an operator")] | Annotated[RepeatSpec, Tag("a repeat")], Discriminator(_tag)
]
