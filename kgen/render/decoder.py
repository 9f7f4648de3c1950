"""The model as the cluster worker sees it, as `src/program.hpp` prints it."""

from __future__ import annotations

import textwrap
from dataclasses import astuple, dataclass, fields

from kgen.plan.decoder import Decoder, DecoderLayer, cluster_decoder
from kgen.plan.plan import Plan
from kgen.render.tables import aligned

_TENSORS = ("embedding", "final_norm", "logits_weight", "tokens", "sampled", "logits")
_OPERATORS = ("sample_op", "advance_op")
_COMMENT_WIDTH = 100
_CPP_TYPE = {bool: "bool", int: "std::uint32_t", float: "double"}


@dataclass(frozen=True, slots=True)
class Member:
    """One `static constexpr` member."""

    cpp_type: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class DecoderView:
    """The struct: its constants, and the lines of its table of layers and of its tensors and operators.

    Without layers there is no struct, and the lines of `reason` say why.
    """

    constants: tuple[Member, ...] = ()
    layer_fields: str = ""
    layers: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()


def make_decoder(plan: Plan) -> DecoderView:
    """What to print for the cluster worker."""
    decoder = cluster_decoder(plan)
    if not isinstance(decoder, Decoder):
        more = f", and {len(decoder) - 1} more reasons" if len(decoder) > 1 else ""
        text = f"None: this is not a model for the cluster worker ({decoder[0]}{more})."
        return DecoderView(reason=tuple(textwrap.wrap(text, _COMMENT_WIDTH)))
    skipped = {"layers", *_TENSORS, *_OPERATORS}
    constants = [Member("std::uint32_t", "layers", str(len(decoder.layers)))]
    constants += [
        _constant(field.name, getattr(decoder, field.name))
        for field in fields(decoder)
        if field.name not in skipped
    ]
    return DecoderView(
        constants=tuple(constants),
        layer_fields=", ".join(field.name for field in fields(DecoderLayer)),
        layers=aligned(
            ([str(number or 0) for number in astuple(layer)], f"layer {i}")
            for i, layer in enumerate(decoder.layers)
        ),
        indices=_index_lines(plan, decoder),
    )


def _constant(name: str, value: bool | int | float) -> Member:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return Member(_CPP_TYPE[type(value)], name, text)


def _index_lines(plan: Plan, decoder: Decoder) -> tuple[str, ...]:
    named = [
        (field, getattr(decoder, field), plan.tensors[getattr(decoder, field)].name) for field in _TENSORS
    ]
    named += [
        (field, getattr(decoder, field), plan.ops[getattr(decoder, field)].name) for field in _OPERATORS
    ]
    texts = [f"static constexpr std::uint16_t {field} = {index};" for field, index, _ in named]
    width = max(map(len, texts))
    return tuple(f"{text:{width}}  // {name}" for text, (_, _, name) in zip(texts, named, strict=True))
