"""Writes GGUF files as llama.cpp's converters do."""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, quantize

NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    part, suffix = rest.rsplit(".", 1)
    return f"blk.{layer}.{NAMES[part]}.{suffix}"


def interleave(weights: np.ndarray, heads: int) -> np.ndarray:
    """What convert_hf_to_gguf.py does to q and k of a llama."""
    return (
        weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
        .swapaxes(1, 2)
        .reshape(weights.shape)
    )


def write_gguf(path: Path, project, values, kinds, *, arch="llama", parts=1, **metadata) -> Path:
    """`values` in Hugging Face names and order; kinds[name] is the type of each tensor, F32 by default."""
    writer = GGUFWriter(path, arch)
    settings = {
        "embedding_length": 64,
        "attention.head_count": project.heads,
        "attention.head_count_kv": project.kv_heads,
        "rope.dimension_count": project.head,
        "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": 1e-5,
        **metadata,
    }
    for key, value in settings.items():
        add = {float: writer.add_float32, str: writer.add_string, list: writer.add_array}
        add.get(type(value), writer.add_uint32)(f"{arch}.{key}", value)
    writer.add_uint16("split.count", parts)
    for name, value in values.items():
        if arch == "llama" and ".q_proj" in name:
            value = interleave(value, project.heads)
        if arch == "llama" and ".k_proj" in name:
            value = interleave(value, project.kv_heads)
        kind = kinds.get(name, Type.F32)
        gguf = name if name == "rope_freqs.weight" else gguf_name(name)
        writer.add_tensor(gguf, quantize(value, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
