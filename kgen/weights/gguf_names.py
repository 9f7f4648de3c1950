"""Names of GGUF tensors, as llama.cpp's converter writes them, to Hugging Face names."""

from __future__ import annotations

import re

_GLOBAL = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_PATTERN = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")


def hf_name(name: str) -> str:
    """The Hugging Face name of a GGUF tensor; a name that is not known comes back as it is."""
    match = _PATTERN.fullmatch(name)
    if match is None:
        return name
    block, part, suffix = match.groups()
    if block is None:
        return f"{_GLOBAL[part]}.{suffix}" if part in _GLOBAL else name
    return f"model.layers.{block}.{_BLOCK[part]}.{suffix}" if part in _BLOCK else name
