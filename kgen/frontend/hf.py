"""`from: {hf_config: ...}`: the dims, tensors and graph that a Hugging Face config stands for."""

from __future__ import annotations

from typing import Any

from kgen.diagnostics import SpecError
from kgen.frontend.hf_config import HfModel, read_config
from kgen.spec.document import Document
from kgen.spec.models import ModelSpec

_LAYER = "model.layers.{i}"
_QKV = "(heads + 2 * kv_heads) * head"


def written_out(spec: ModelSpec) -> ModelSpec:
    """The spec with its dims, tensors and graph; itself if it has them. SpecError names bad fields."""
    if spec.origin is None or spec.config is None:
        return spec
    model = read_config(spec.config)
    context = spec.runtime.context.last
    if model.max_context is not None and context > model.max_context:
        raise SpecError.single(
            spec.span("runtime", "context"),
            f"runtime.context: {context} is more than the model's max_position_embeddings",
            expected=f"at most {model.max_context}",
        )
    data: dict[str, Any] = {key: spec.document.data[key] for key in ("kgen", "kind", "name", "runtime")}
    data |= {"dims": _dims(model), "tensors": _tensors(model), "graph": _graph(model)}
    # What is wrong with the expansion is shown at the field that asked for it.
    runtime = {at: span for at, span in spec.document.values.items() if at[:1] == ("runtime",)}
    document = Document(
        spec.document.file, data, {(): spec.span("from", "hf_config"), **runtime}, dict(spec.document.keys)
    )
    return ModelSpec.model_validate(data).attach(document)


def _dims(model: HfModel) -> dict[str, int]:
    names = ("hidden", "ffn", "layers", "heads", "kv_heads", "head", "vocab")
    return {name: getattr(model, name) for name in names}


def _weight(shape: list[str], *sources: str) -> dict[str, Any]:
    weight: dict[str, Any] = {"shape": shape, "dtype": "bf16"}
    if "{i}" in sources[0]:
        weight["repeat"] = "layers"
    return weight | {"source": list(sources) if len(sources) > 1 else sources[0]}


def _tensors(model: HfModel) -> dict[str, Any]:
    attention, mlp = f"{_LAYER}.self_attn", f"{_LAYER}.mlp"
    tensors = {
        "embed": _weight(["vocab", "hidden"], "model.embed_tokens.weight"),
        "attn_norm": _weight(["hidden"], f"{_LAYER}.input_layernorm.weight"),
        "wqkv": _weight([_QKV, "hidden"], *(f"{attention}.{name}_proj.weight" for name in "qkv")),
    }
    if model.bias:
        tensors["bqkv"] = _weight([_QKV], *(f"{attention}.{name}_proj.bias" for name in "qkv"))
    if model.family == "qwen3":
        tensors["q_norm"] = _weight(["head"], f"{attention}.q_norm.weight")
        tensors["k_norm"] = _weight(["head"], f"{attention}.k_norm.weight")
    tensors["wo"] = _weight(["hidden", "heads * head"], f"{attention}.o_proj.weight")
    if _output_bias(model):
        tensors["bo"] = _weight(["hidden"], f"{attention}.o_proj.bias")
    tensors |= {
        "ffn_norm": _weight(["hidden"], f"{_LAYER}.post_attention_layernorm.weight"),
        "wgate": _weight(["ffn", "hidden"], f"{mlp}.gate_proj.weight"),
        "wup": _weight(["ffn", "hidden"], f"{mlp}.up_proj.weight"),
        "wdown": _weight(["hidden", "ffn"], f"{mlp}.down_proj.weight"),
        "final_norm": _weight(["hidden"], "model.norm.weight"),
    }
    if not model.tied:
        tensors["lm_head"] = _weight(["vocab", "hidden"], "lm_head.weight")
    return tensors


def _output_bias(model: HfModel) -> bool:
    return model.bias and model.family != "qwen2"


def _graph(model: HfModel) -> list[Any]:
    qkv_in = ["h", "wqkv", "bqkv"] if model.bias else ["h", "wqkv"]
    out_in = ["a", "wo", "bo"] if _output_bias(model) else ["a", "wo"]
    layer = [
        _norm("attn_norm", model),
        {"op": "linear", "in": qkv_in, "out": "qkv"},
        _attention(model),
        {"op": "linear", "in": out_in, "residual": "x", "out": "x"},
        _norm("ffn_norm", model),
        {"op": "swiglu", "in": ["h", "wgate", "wup"], "out": "f"},
        {"op": "linear", "in": ["f", "wdown"], "residual": "x", "out": "x"},
    ]
    return [
        {"op": "embedding", "in": ["tokens", "embed"], "out": "x"},
        {"repeat": "layers", "do": layer},
        _norm("final_norm", model),
        {"op": "logits", "in": ["h", "embed" if model.tied else "lm_head"], "out": "y"},
        {"op": "sample", "in": "y", "out": "tokens"},
    ]


def _norm(weight: str, model: HfModel) -> dict[str, Any]:
    return {"op": "rmsnorm", "in": ["x", weight], "eps": model.eps, "out": "h"}


def _attention(model: HfModel) -> dict[str, Any]:
    rope: dict[str, Any] = {"theta": model.rope.theta}
    if model.rope.scaling:
        rope["scaling"] = {"type": "llama3", **model.rope.scaling}
    op: dict[str, Any] = {
        "op": "attention",
        "in": "qkv",
        "heads": "heads",
        "kv_heads": "kv_heads",
        "head": "head",
    }
    if model.family == "qwen3":
        op |= {"q_norm": "q_norm", "k_norm": "k_norm", "eps": model.eps}
    return op | {"rope": rope, "out": "a"}
