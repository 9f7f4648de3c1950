"""Specs of small models of every shape, written from a few numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.frontend.build import build_graph
from kgen.passes.pipeline import compile_graph
from kgen.plan.plan import Plan
from kgen.spec.load import parse_spec

Json = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """Sizes and options. `fused` uses swiglu and residual, else silu_mul and add as operators of their own;
    `parallel` lets attention and ffn read the same norm; without `repeat` every layer is written out."""

    name: str = "model"
    hidden: int = 72
    ffn: int = 200
    layers: int = 2
    heads: int = 6
    kv_heads: int = 2
    head: int = 24
    vocab: int = 331
    q_norm: bool = False
    k_norm: bool = False
    bias: bool = False
    tied: bool = True
    fused: bool = True
    parallel: bool = False
    repeat: bool = True
    theta: float | None = 10000.0
    scaled: bool = False
    scale: float | None = None
    eps: float = 1e-5
    batch: int = 4
    context: int = 96
    kv_page: int = 16
    rows: int = 16
    workers: int = 132

    def plan(self) -> Plan:
        """Through the whole compiler."""
        return compile_graph(build_graph(parse_spec(self.spec()))).plan

    def spec(self) -> str:
        """The spec as JSON, which is YAML too."""
        sizes = ("hidden", "ffn", "layers", "heads", "kv_heads", "head", "vocab")
        limits = {"batch": f"1..{self.batch}", "context": f"1..{self.context}"}
        writer = _Writer(self)
        graph = writer.graph()
        return json.dumps(
            {
                "kgen": 1,
                "kind": "model",
                "name": self.name,
                "dims": {size: getattr(self, size) for size in sizes if size != "layers" or self.repeat},
                "runtime": limits | {key: getattr(self, key) for key in ("kv_page", "rows", "workers")},
                "tensors": writer.tensors,
                "graph": graph,
            },
            indent=1,
        )


class _Writer:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.tensors: Json = {}

    def graph(self) -> list[Json]:
        m = self.model
        embed = self.weight("embed", ["vocab", "hidden"])
        if m.repeat:
            layers: list[Json] = [{"repeat": "layers", "do": self.layer("")}]
        else:
            layers = [op for i in range(m.layers) for op in self.layer(f"l{i}_")]
        return [
            {"op": "embedding", "in": ["tokens", embed], "out": "x"},
            *layers,
            self.norm("x", "final_norm", "h"),
            {
                "op": "logits",
                "in": ["h", embed if m.tied else self.weight("lm_head", ["vocab", "hidden"])],
                "out": "y",
            },
            {"op": "sample", "in": "y", "out": "tokens"},
        ]

    def weight(self, name: str, shape: list[str]) -> str:
        repeats = self.model.repeat and name not in ("embed", "final_norm", "lm_head")
        repeat = {"repeat": "layers"} if repeats else {}
        source = name + ".{i}" if repeats else name
        self.tensors[name] = {"shape": shape, "dtype": "bf16", "source": source} | repeat
        return name

    def norm(self, x: str, name: str, out: str) -> Json:
        weight = self.weight(name, ["hidden"])
        return {"op": "rmsnorm", "in": [x, weight], "eps": self.model.eps, "out": out}

    def layer(self, prefix: str) -> list[Json]:
        m = self.model
        second = [] if m.parallel else [self.norm("x", f"{prefix}ffn_norm", "h")]
        return [
            self.norm("x", f"{prefix}attn_norm", "h"),
            self.linear(prefix, "qkv", "h", ["(heads + 2 * kv_heads) * head", "hidden"], "qkv", m.bias),
            self.attention(prefix),
            *self.project(prefix, "o", "a", ["hidden", "heads * head"]),
            *second,
            *self.ffn(prefix),
            *self.project(prefix, "down", "f", ["hidden", "ffn"]),
        ]

    def linear(self, prefix: str, name: str, x: str, shape: list[str], out: str, bias: bool) -> Json:
        inputs = [x, self.weight(f"{prefix}w{name}", shape)]
        if bias:
            inputs.append(self.weight(f"{prefix}b{name}", shape[:1]))
        return {"op": "linear", "in": inputs, "out": out}

    def project(self, prefix: str, name: str, x: str, shape: list[str]) -> list[Json]:
        """A linear layer that adds to x."""
        if self.model.fused:
            return [self.linear(prefix, name, x, shape, "x", False) | {"residual": "x"}]
        return [
            self.linear(prefix, name, x, shape, "t", self.model.bias),
            {"op": "add", "in": ["x", "t"], "out": "x"},
        ]

    def ffn(self, prefix: str) -> list[Json]:
        shape = ["ffn", "hidden"]
        if self.model.fused:
            inputs = ["h", self.weight(f"{prefix}wgate", shape), self.weight(f"{prefix}wup", shape)]
            return [{"op": "swiglu", "in": inputs, "out": "f"}]
        return [
            self.linear(prefix, "gate", "h", shape, "g", False),
            self.linear(prefix, "up", "h", shape, "u", self.model.bias),
            {"op": "silu_mul", "in": ["g", "u"], "out": "f"},
        ]

    def attention(self, prefix: str) -> Json:
        m = self.model
        op: Json = {"op": "attention", "in": "qkv", "out": "a"}
        for key in ("q_norm", "k_norm"):
            if getattr(m, key):
                op |= {key: self.weight(prefix + key, ["head"]), "eps": m.eps}
        if m.theta is not None:
            op["rope"] = {"theta": m.theta}
        if m.theta is not None and m.scaled:
            op["rope"]["scaling"] = {
                "type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_context": 32,
            }
        return op | ({} if m.scale is None else {"scale": m.scale})


def random_model(seed: int) -> Model:
    """A valid model: any sizes that a spec may have, small ones and odd ones most of all."""
    rng = np.random.default_rng(seed)

    def one(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    def often(probability: float = 0.5) -> bool:
        return bool(rng.random() < probability)

    head, kv_heads = int(one(8, 16, 24, 40, 64, 72, 128, 256)), int(one(1, 2, 3))
    group = int(one(1, 2, 3, 4, 5, 7, 8)) if head <= 72 else int(one(1, 2, 3))
    batch = int(one(1, 1, 2, 3, 5, 8))
    return Model(
        name=f"fuzz{seed}",
        hidden=int(rng.integers(5, 18)) * 8 if often(0.7) else int(rng.integers(33, 137)),
        ffn=int(one(8, 8, 24, 56, 72, 129, 200)),
        layers=int(one(1, 2, 3)),
        heads=kv_heads * group,
        kv_heads=kv_heads,
        head=head,
        vocab=int(one(3, 257, 97, 331, 1000, 515)),
        q_norm=often(),
        k_norm=often(),
        bias=often(),
        tied=often(),
        fused=often(0.6),
        parallel=often(0.3),
        repeat=often(0.7),
        theta=one(None, 10000.0, 500000.0, 1e6),
        scaled=often(0.3),
        scale=one(None, None, 0.1),
        eps=one(1e-6, 1e-5),
        batch=batch,
        context=int(one(17, 33, 64, 96, 130)),
        kv_page=8 * int(one(1, 1, 2, 3, 5, 8)),
        rows=batch + int(one(0, 0, 1, 3, 8, 16, 29)),
        workers=int(rng.integers(1, 201)),
    )
