"""One decode step of a model in PyTorch, compiled and captured as a CUDA graph: what one would run instead.

The model is that of model.json, with random bf16 weights. Prints the median time of a step as a line of JSON
for each case, a batch and the tokens in each cache. Usage: torch_decode.py BATCHxCONTEXT...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from cases import parse_case

WARM_UP, SAMPLES, STEPS = 5, 20, 5


def rand(*shape: int) -> torch.Tensor:
    """Random bf16 on the GPU, small enough that activations stay finite."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


def make_step(model: dict[str, Any], batch: int, context: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """The step as a function of the last tokens [batch], with `context` tokens in the cache."""
    ops = model["ops"]
    attention = next(op for op in ops if op["kind"] == "attention")["constants"]
    hidden = next(op for op in ops if op["kind"] == "embedding")["constants"]["hidden"]
    ffn = next(op for op in ops if op["kind"] == "swiglu")["constants"]["n"]
    heads, kv_heads, size = attention["heads"], attention["kv_heads"], attention["head"]
    widths = [heads * size, kv_heads * size, kv_heads * size]
    layers = [
        {
            "qkv": rand(sum(widths), hidden),
            "out": rand(hidden, heads * size),
            "gate_up": rand(2 * ffn, hidden),
            "down": rand(hidden, ffn),
            "norms": torch.ones(2, hidden, device="cuda", dtype=torch.bfloat16),
            "head_norm": torch.ones(size, device="cuda", dtype=torch.bfloat16),
            "k": rand(batch, kv_heads, context + 1, size),
            "v": rand(batch, kv_heads, context + 1, size),
        }
        for op in ops
        if op["kind"] == "attention"
    ]
    embedding = rand(model["vocab"], hidden)
    last = torch.ones(hidden, device="cuda", dtype=torch.bfloat16)
    cos, sin = rand(batch, 1, 1, size), rand(batch, 1, 1, size)

    def rotate(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def step(tokens: torch.Tensor) -> torch.Tensor:
        x = F.embedding(tokens, embedding)
        for w in layers:
            qkv = F.linear(F.rms_norm(x, (hidden,), w["norms"][0], 1e-5), w["qkv"])
            q, k, v = (t.view(batch, -1, 1, size) for t in qkv.split(widths, -1))
            if attention["has_q_norm"]:
                q, k = (F.rms_norm(t, (size,), w["head_norm"], 1e-6) for t in (q, k))
            q, k = rotate(q), rotate(k)
            w["k"][:, :, context:], w["v"][:, :, context:] = k, v
            a = F.scaled_dot_product_attention(q, w["k"], w["v"], enable_gqa=True)
            x = x + F.linear(a.reshape(batch, -1), w["out"])
            gate, up = F.linear(F.rms_norm(x, (hidden,), w["norms"][1], 1e-5), w["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w["down"])
        return F.linear(F.rms_norm(x, (hidden,), last, 1e-5), embedding).argmax(-1)

    return step


def measure(model: dict[str, Any], batch: int, context: int) -> float:
    """Median microseconds of a step, timed by events around replays of the graph."""
    run = torch.compile(make_step(model, batch, context), fullgraph=True, dynamic=False)
    tokens = torch.zeros(batch, device="cuda", dtype=torch.long)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run(tokens)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tokens.copy_(run(tokens))
    times = []
    for _ in range(WARM_UP + SAMPLES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(STEPS):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / STEPS)
    return sorted(times[WARM_UP:])[SAMPLES // 2]


def main() -> None:
    """Measure the cases one after the other, so that a run cut short leaves the first ones."""
    if not torch.cuda.is_available():
        sys.exit("this PyTorch finds no GPU")
    model = json.loads((Path(__file__).resolve().parent.parent / "model.json").read_text())
    for case in map(parse_case, sys.argv[1:]):
        with torch.no_grad():
            microseconds = measure(model, case.batch, case.context)
        figures = {"batch": case.batch, "context": case.context, "step_us": microseconds}
        print(json.dumps(figures), flush=True)
        torch.compiler.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
