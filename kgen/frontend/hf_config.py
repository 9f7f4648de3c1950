"""A Hugging Face config.json of a Llama, Qwen2 or Qwen3 model, read with every field accounted for.

A field is used, or is known not to change what the model computes, or is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgen.diagnostics import Diagnostic, SpecError, nearest, one_of
from kgen.spec.document import At, Document
from kgen.spec.fields import describe, is_positive

FAMILIES = ("llama", "qwen2", "qwen3")

# Fields that say nothing about the computation of one forward pass in inference.
_IGNORED = frozenset(
    (
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "bos_token_id",
        "dtype",
        "eos_token_id",
        "initializer_range",
        "is_llama_config",
        "max_window_layers",
        "model_type",
        "pad_token_id",
        "torch_dtype",
        "transformers.js_config",
        "transformers_version",
        "use_cache",
    )
)
# Fields that may be there as long as they ask for nothing.
_MUST_BE = {
    "mlp_bias": False,
    "pretraining_tp": 1,
    "rope_interleaved": False,
    "use_mrope": False,
    "use_sliding_window": False,
}


@dataclass(frozen=True, slots=True)
class RopeFields:
    """theta, and the four numbers of Llama 3's scaling when it is in use."""

    theta: float
    scaling: dict[str, float | int] | None


@dataclass(frozen=True, slots=True)
class HfModel:
    """What a config says, with the defaults of its family filled in."""

    family: str
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    vocab: int
    eps: float
    tied: bool
    bias: bool  # of attention's q, k and v; Llama and Qwen3 have one on its output too
    rope: RopeFields
    max_context: int | None


def read_config(document: Document) -> HfModel:
    """The model in a config. SpecError names every field that is wrong or asks for something unsupported."""
    reader = _Reader(document)
    family = reader.family()
    hidden = reader.integer("hidden_size")
    heads = reader.integer("num_attention_heads")
    # Defaults are those of transformers' config classes, which a config.json leaves out.
    kv_default = heads if family == "llama" else 32
    head_default = 128 if family == "qwen3" else hidden // heads
    if reader.errors:
        head_default = 1  # nothing more is said of what follows from a wrong number
    model = HfModel(
        family=family,
        hidden=hidden,
        ffn=reader.integer("intermediate_size"),
        layers=reader.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=reader.integer("num_key_value_heads", kv_default),
        head=reader.integer("head_dim", head_default),
        vocab=reader.integer("vocab_size"),
        eps=reader.number(("rms_norm_eps",), 1e-6),
        tied=reader.flag("tie_word_embeddings"),
        bias=reader.flag("attention_bias") or family == "qwen2",
        rope=reader.rope(),
        max_context=reader.optional_integer("max_position_embeddings"),
    )
    reader.activation()
    reader.layer_types()
    reader.others()
    if reader.errors:
        raise SpecError(reader.errors)
    return model


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.data: dict[str, Any] = document.data
        self.used: set[str] = set()
        self.errors: list[Diagnostic] = []

    def error(self, at: At, message: str, expected: str = "", hint: str = "") -> None:
        self.errors.append(Diagnostic(self.document.value(at), message, expected, hint))

    def take(self, at: At, default: Any = None) -> Any:
        """The value of a field, or the default when it is absent or null."""
        self.used.add(str(at[0]))
        value: Any = self.data
        for part in at:
            value = value.get(part)
        return default if value is None else value

    def family(self) -> str:
        value = self.take(("model_type",))
        if value in FAMILIES:
            return str(value)
        hint = nearest(value, FAMILIES) if isinstance(value, str) else ""
        message = "the config has no model_type" if value is None else f"model_type is {describe(value)}"
        raise SpecError.single(
            self.document.value(("model_type",)), message, expected=one_of(FAMILIES), hint=hint
        )

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.take((name,), default)
        if value is None:
            self.error((), f"the config has no {name}", "a whole number")
            return 1
        return self._checked_integer((name,), value)

    def optional_integer(self, name: str) -> int | None:
        value = self.take((name,))
        return None if value is None else self._checked_integer((name,), value)

    def _checked_integer(self, at: At, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
            self.error(at, f"{at[-1]} is {describe(value)}", "a whole number of at least 1")
            return 1
        return value

    def number(self, at: At, default: float | None = None) -> float:
        value = self.take(at, default)
        if value is None:
            self.error(at[:-1], f"{'.'.join(map(str, at))} is missing", "a number")
            return 1.0
        if not is_positive(value):
            self.error(at, f"{at[-1]} is {describe(value)}", "a positive number that fp32 can hold")
            return 1.0
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.take((name,), False)
        if not isinstance(value, bool):
            self.error((name,), f"{name} is {describe(value)}", "true or false")
            return False
        return value

    def rope(self) -> RopeFields:
        """`rope_theta` and `rope_scaling`, or both in the newer `rope_parameters`."""
        newer = self.take(("rope_parameters",))
        older = self.take(("rope_scaling",))
        if newer is not None and older is not None:
            self.error(
                ("rope_scaling",), "rope_scaling is given together with rope_parameters", "one of them"
            )
        key = "rope_parameters" if newer is not None else "rope_scaling"
        fields = newer if newer is not None else older
        if fields is not None and not isinstance(fields, dict):
            self.error((key,), f"{key} is {describe(fields)}", "an object")
            fields = None
        inside = isinstance(newer, dict) and newer.get("rope_theta") is not None
        theta = self.number((key, "rope_theta") if inside else ("rope_theta",), 10000.0)
        self.used.add("rope_theta")
        return RopeFields(theta, self._scaling(key, fields) if fields else None)

    def _scaling(self, key: str, fields: dict[str, Any]) -> dict[str, float | int] | None:
        name = "type" if "rope_type" not in fields and "type" in fields else "rope_type"
        kind = fields.get(name, "default")
        known = {"rope_type", "type", "rope_theta"}
        scaling: dict[str, float | int] | None = None
        if kind == "llama3":
            numbers = ("factor", "low_freq_factor", "high_freq_factor")
            context = "original_max_position_embeddings"
            known |= {*numbers, context}
            scaling = {number: self.number((key, number)) for number in numbers}
            if fields.get(context) is None:
                self.error((key,), f"{key}.{context} is missing", "a whole number")
            else:
                scaling["original_context"] = self._checked_integer((key, context), fields[context])
        elif kind != "default":
            self.error((key, name), f"{key}.{name} is {describe(kind)}", "default or llama3")
            return None
        for field in fields:
            if field not in known and fields[field] is not None:
                value = fields[field]
                if field == "partial_rotary_factor" and value == 1:
                    continue
                self.error((key, field), f"{key}.{field} is not supported with the type '{kind}'")
        return scaling

    def activation(self) -> None:
        value = self.take(("hidden_act",), "silu")
        if value not in ("silu", "swish"):
            self.error(("hidden_act",), f"hidden_act is {describe(value)}", "silu")

    def layer_types(self) -> None:
        value = self.take(("layer_types",), [])
        if not isinstance(value, list):
            self.error(("layer_types",), f"layer_types is {describe(value)}", "a list")
            return
        for i, kind in enumerate(value):
            if kind != "full_attention":
                self.error(("layer_types", i), f"layer {i} is {describe(kind)}", "full_attention")
                return

    def others(self) -> None:
        """Fields that nothing above has read."""
        # Qwen's configs give a window that use_sliding_window switches on.
        window = self.take(("sliding_window",))
        if window is not None and self.data["model_type"] == "llama":
            self.error(("sliding_window",), f"sliding_window is {describe(window)}", "null")
        for name, wanted in _MUST_BE.items():
            value = self.take((name,), wanted)
            if value != wanted or isinstance(value, bool) != isinstance(wanted, bool):
                self.error((name,), f"{name} is {describe(value)}", str(wanted).lower())
        for name in self.data:
            if name not in self.used and name not in _IGNORED and self.data[name] is not None:
                message = f"{name} is not supported; if it changes nothing in the forward pass, remove it"
                self.error((name,), message)
