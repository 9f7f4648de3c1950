"""Random models of exact shapes in transformers, built from a generated project's model.json.

The kgen side reads the same bf16 weights: the state dict is packed by name, as `kgen pack` would.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

HEADER_BYTES = 4096


def config_of(model: dict[str, Any]) -> tuple[type, type, dict[str, Any]]:
    """Configuration class, model class and arguments that give the architecture of model.json."""
    attention = next(op for op in model["ops"] if op["kind"] == "attention")["constants"]
    norm = next(op for op in model["ops"] if op["kind"] == "rmsnorm")["constants"]
    linear = next(op for op in model["ops"] if op["kind"] == "linear")["constants"]
    logits = next(op for op in model["ops"] if op["kind"] == "logits")
    embedding = next(op for op in model["ops"] if op["kind"] == "embedding")
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": attention["rope_theta"]}
    if attention["rope_factor"] != 1.0:
        rope |= {
            "rope_type": "llama3",
            "factor": attention["rope_factor"],
            "low_freq_factor": attention["rope_low_freq"],
            "high_freq_factor": attention["rope_high_freq"],
            "original_max_position_embeddings": attention["rope_original_context"],
        }
    arguments = {
        "vocab_size": model["vocab"],
        "hidden_size": embedding["constants"]["hidden"],
        "intermediate_size": next(op for op in model["ops"] if op["kind"] == "swiglu")["constants"]["n"],
        "num_hidden_layers": sum(op["kind"] == "attention" for op in model["ops"]),
        "num_attention_heads": attention["heads"],
        "num_key_value_heads": attention["kv_heads"],
        "head_dim": attention["head"],
        "rms_norm_eps": norm["eps"],
        "max_position_embeddings": max(model["runtime"]["context"], attention["rope_original_context"]),
        "rope_parameters": rope,
        "tie_word_embeddings": logits["operands"]["weight"] == embedding["operands"]["table"],
    }
    if attention["has_q_norm"]:
        return Qwen3Config, Qwen3ForCausalLM, arguments
    if linear["has_bias"]:
        return Qwen2Config, Qwen2ForCausalLM, arguments
    return LlamaConfig, LlamaForCausalLM, arguments


def random_model(model: dict[str, Any], seed: int, device: str) -> torch.nn.Module:
    """An fp32 model whose weights are random and exactly representable in bf16."""
    config_class, model_class, arguments = config_of(model)
    torch.manual_seed(seed)
    with torch.device(device):
        network = model_class(config_class(**arguments)).float().eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.dim() == 1 and "norm" in name:
                weight.copy_(1 + 0.2 * torch.randn_like(weight))
            elif weight.dim() == 1:
                weight.normal_(0, 0.1)
            else:
                weight.normal_(0, weight.shape[-1] ** -0.5)
            weight.copy_(weight.bfloat16().float())
    return network


def write_packed(model: dict[str, Any], network: torch.nn.Module, path: Path) -> None:
    """Write the packed weight file of model.json from a state dict with Hugging Face names."""
    state = dict(network.named_parameters())
    header = bytearray(HEADER_BYTES)
    header[0:8] = b"KGENWTS1"
    header[8:12] = HEADER_BYTES.to_bytes(4, "little")
    header[16:24] = int(model["weight_bytes"]).to_bytes(8, "little")
    header[24:56] = bytes.fromhex(model["digest"])
    name = model["name"].encode()
    header[56 : 56 + len(name)] = name
    with path.open("wb") as file:
        file.write(header)
        file.truncate(HEADER_BYTES + model["weight_bytes"])
        for tensor in model["tensors"]:
            if tensor["space"] != "weight":
                continue
            data = torch.cat([state[source].detach() for source in tensor["sources"]]).bfloat16()
            data = data.reshape(-1, tensor["shape"][-1])
            padded = torch.zeros(data.shape[0], tensor["stride"], dtype=torch.bfloat16, device=data.device)
            padded[:, : data.shape[1]] = data
            file.seek(HEADER_BYTES + tensor["offset"])
            file.write(padded.view(torch.int16).cpu().numpy().astype(np.int16, copy=False).tobytes())
