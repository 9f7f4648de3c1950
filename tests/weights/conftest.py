"""A tiny llama for the packer: a project's model.json written by hand, and checkpoints with random values."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest


@dataclass(frozen=True)
class TinyProject:
    """A project directory and the shapes of the checkpoint tensors it takes."""

    path: Path
    shapes: dict[str, tuple[int, ...]]
    tensors: list[dict]
    weight_bytes: int
    heads: int = 4
    kv_heads: int = 2
    head: int = 16

    def random(self, seed: int = 0) -> dict[str, np.ndarray]:
        draw = np.random.default_rng(seed)
        return {name: draw.standard_normal(shape, np.float32) for name, shape in self.shapes.items()}

    def expected(self, values: dict[str, np.ndarray]) -> bytes:
        """The data of the packed file for f32 values, element by element."""
        data = bytearray(self.weight_bytes)
        for t in self.tensors:
            stacked = [row for source in t["sources"] for row in values[source]]
            rows = stacked if len(t["shape"]) > 1 else [stacked]
            for r, row in enumerate(rows):
                start = t["offset"] + r * t["stride"] * 2
                bits = b"".join(round_to_bf16(float(v)).to_bytes(2, "little") for v in row)
                data[start : start + len(bits)] = bits
        return bytes(data)


def round_to_bf16(value: float) -> int:
    """Bits of the nearest bf16, ties to even, in integer arithmetic."""
    bits = int(np.float32(value).view(np.uint32))
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 | 0x40
    low, high = bits & 0xFFFF, bits >> 16
    return high + (low > 0x8000 or (low == 0x8000 and high & 1))


def make_project(
    path: Path, *, hidden: int = 64, ffn: int = 96, vocab: int = 50, bias: bool = False
) -> TinyProject:
    heads, kv_heads, head = 4, 2, 16
    q, kv = heads * head, kv_heads * head
    layer = "model.layers.0."
    attn, mlp = layer + "self_attn.", layer + "mlp."
    shapes = {
        "model.embed_tokens.weight": (vocab, hidden),
        layer + "input_layernorm.weight": (hidden,),
        attn + "q_proj.weight": (q, hidden),
        attn + "k_proj.weight": (kv, hidden),
        attn + "v_proj.weight": (kv, hidden),
        attn + "o_proj.weight": (hidden, q),
        layer + "post_attention_layernorm.weight": (hidden,),
        mlp + "gate_proj.weight": (ffn, hidden),
        mlp + "up_proj.weight": (ffn, hidden),
        mlp + "down_proj.weight": (hidden, ffn),
        "model.norm.weight": (hidden,),
    }
    sources = [(name,) for name in shapes if "self_attn" not in name or "o_proj" in name]
    sources.append(tuple(attn + p + "_proj.weight" for p in "qkv"))
    if bias:
        shapes |= {attn + p + "_proj.bias": (n,) for p, n in (("q", q), ("k", kv), ("v", kv))}
        sources.append(tuple(attn + p + "_proj.bias" for p in "qkv"))
    tensors, offset = [], 0
    for i, names in enumerate(sources):
        shape = (sum(shapes[n][0] for n in names), *shapes[names[0]][1:])
        stride = -(-shape[-1] // 32) * 32
        rows = shape[0] if len(shape) > 1 else 1
        tensors.append(
            {
                "name": f"w{i}",
                "space": "weight",
                "dtype": "bf16",
                "shape": shape,
                "stride": stride,
                "offset": offset,
                "sources": names,
            }
        )
        offset += -(-rows * stride * 2 // 256) * 256
    activation = {**tensors[0], "name": "x", "space": "activation", "sources": ()}
    attention = {"heads": heads, "kv_heads": kv_heads, "head": head, "has_rope": True, "rope_theta": 10000.0}
    attention |= {
        "rope_factor": 8.0,
        "rope_low_freq": 1.0,
        "rope_high_freq": 4.0,
        "rope_original_context": 64,
    }
    model = {
        "format": 1,
        "name": "tiny_by_hand",
        "digest": "0123456789abcdef" * 4,
        "weight_bytes": offset,
        "tensors": [*tensors, activation],
        "ops": [
            {
                "name": "norm",
                "kind": "rmsnorm",
                "layer": -1,
                "constants": {"n": hidden, "eps": 1e-5},
                "operands": {},
            },
            {"name": "attn", "kind": "attention", "layer": 0, "constants": attention, "operands": {}},
        ],
    }
    path.mkdir(parents=True)
    (path / "model.json").write_text(json.dumps(model))
    return TinyProject(path, shapes, tensors, offset)


@pytest.fixture
def project(tmp_path: Path) -> TinyProject:
    return make_project(tmp_path / "project")


@pytest.fixture
def padded_project(tmp_path: Path) -> TinyProject:
    """Widths that are no multiple of 32, so that most rows have padding."""
    return make_project(tmp_path / "padded", hidden=40, ffn=50, vocab=33, bias=True)


@pytest.fixture
def biased_project(tmp_path: Path) -> TinyProject:
    return make_project(tmp_path / "biased", bias=True)
