"""Operator graphs of llama-like models of any size, built by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kgen.ir.attention import Attention, Rope
from kgen.ir.elementwise import Add, SiluMul
from kgen.ir.embedding import Embedding
from kgen.ir.graph import Graph, Runtime
from kgen.ir.linear import Linear, Logits, SwiGlu
from kgen.ir.operator import Operator
from kgen.ir.rmsnorm import RmsNorm
from kgen.ir.sample import Advance, Sample
from kgen.ir.tensor import DType, Space, Tensor


@dataclass(frozen=True)
class Model:
    """Dims and options of a model; `fused` uses swiglu and residual, else silu_mul and add as operators."""

    name: str = "tiny"
    hidden: int = 40
    ffn: int = 72
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head: int = 8
    vocab: int = 83
    qk_norm: bool = False
    bias: bool = False
    tied: bool = True
    fused: bool = True
    rope: Rope | None = Rope(theta=10000.0)  # noqa: RUF009
    eps: float = 1e-5
    batch: int = 2
    context: int = 48
    kv_page: int = 4
    rows: int = 5
    workers: int = 3


TINY = Model()
QWEN3_1_7B = Model(
    "qwen3_1_7b",
    2048,
    6144,
    28,
    16,
    8,
    128,
    151936,
    qk_norm=True,
    batch=1,
    context=8192,
    kv_page=64,
    rows=16,
    workers=132,
)
QWEN3_8B = replace(
    QWEN3_1_7B, name="qwen3_8b", hidden=4096, ffn=12288, layers=36, heads=32, kv_heads=8, tied=False
)


def build(m: Model) -> Graph:
    """The operator graph of a model."""
    tensors: list[Tensor] = []
    ops: list[Operator] = []

    def weight(name: str, *shape: int) -> str:
        tensors.append(Tensor(name, shape, DType.BF16, Space.WEIGHT, (name,)))
        return name

    def activation(name: str, dtype: DType, *shape: int) -> str:
        tensors.append(Tensor(name, shape, dtype, Space.ACTIVATION))
        return name

    q, kv = m.heads * m.head, m.kv_heads * m.head
    table = weight("embed", m.vocab, m.hidden)
    tokens = activation("tokens", DType.I32, m.rows)
    x = activation("x", DType.F32, m.rows, m.hidden)
    h = activation("h", DType.BF16, m.rows, m.hidden)
    qkv = activation("qkv", DType.F32, m.rows, q + 2 * kv)
    a = activation("a", DType.BF16, m.rows, q)
    f = activation("f", DType.BF16, m.rows, m.ffn)
    y = activation("logits", DType.F32, m.batch, m.vocab)
    sampled = activation("sampled", DType.I32, m.batch)
    if not m.fused:
        t = activation("t", DType.F32, m.rows, m.hidden)
        g = activation("g", DType.F32, m.rows, m.ffn)
        u = activation("u", DType.F32, m.rows, m.ffn)

    def project(layer: int, name: str, source: str, weight_: str) -> None:
        full = f"layers.{layer}.{name}"
        if m.fused:
            ops.append(Linear(full, layer, source, weight_, x, residual=x))
        else:
            ops.append(Linear(full, layer, source, weight_, t))
            ops.append(Add(f"{full}_add", layer, x, t, x))

    ops.append(Embedding("embed", -1, tokens, table, x))
    for i in range(m.layers):
        p = f"layers.{i}."
        ops.append(RmsNorm(p + "attn_norm", i, x, weight(p + "attn_norm", m.hidden), h, m.eps))
        bias = weight(p + "bqkv", q + 2 * kv) if m.bias else None
        ops.append(Linear(p + "qkv", i, h, weight(p + "wqkv", q + 2 * kv, m.hidden), qkv, bias))
        norms = (weight(p + "q_norm", m.head), weight(p + "k_norm", m.head)) if m.qk_norm else (None, None)
        ops.append(
            Attention(
                p + "attention",
                i,
                qkv,
                a,
                i,
                m.heads,
                m.kv_heads,
                m.head,
                m.head**-0.5,
                m.rope,
                *norms,
                eps=m.eps,
            )
        )
        project(i, "o", a, weight(p + "wo", m.hidden, q))
        ops.append(RmsNorm(p + "ffn_norm", i, x, weight(p + "ffn_norm", m.hidden), h, m.eps))
        gate, up = weight(p + "wgate", m.ffn, m.hidden), weight(p + "wup", m.ffn, m.hidden)
        if m.fused:
            ops.append(SwiGlu(p + "swiglu", i, h, gate, up, f))
        else:
            ops.append(Linear(p + "gate", i, h, gate, g))
            ops.append(Linear(p + "up", i, h, up, u))
            ops.append(SiluMul(p + "silu_mul", i, g, u, f))
        project(i, "down", f, weight(p + "wdown", m.hidden, m.ffn))
    ops.append(RmsNorm("final_norm", -1, x, weight("final_norm", m.hidden), h, m.eps))
    head = table if m.tied else weight("lm_head", m.vocab, m.hidden)
    ops.append(Logits("logits", -1, h, head, y))
    ops.append(Sample("sample", -1, y, sampled))
    ops.append(Advance("advance", -1, sampled, tokens))
    dims = {k: getattr(m, k) for k in ("hidden", "ffn", "layers", "heads", "kv_heads", "head", "vocab")}
    return Graph(
        m.name, Runtime(m.batch, m.context, m.kv_page, m.rows, m.workers), dims, tuple(tensors), tuple(ops)
    )


def with_forks(m: Model) -> Graph:
    """A norm reads rows of x one by one, and a linear layer that does not need the norm reads all of them."""
    graph = build(m)
    extra = (
        Tensor("square", (m.hidden, m.hidden), DType.BF16, Space.WEIGHT, ("square",)),
        Tensor("y", (m.rows, m.hidden), DType.F32, Space.ACTIVATION),
        Tensor("h2", (m.rows, m.hidden), DType.BF16, Space.ACTIVATION),
    )
    added = (
        Add("double", 0, "x", "x", "x"),
        RmsNorm("again", 0, "x", "layers.0.attn_norm", "h2", m.eps),
        Linear("side", 0, "h", "square", "y", residual="x"),
    )
    return replace(graph, ops=(*graph.ops[:2], *added, *graph.ops[2:]), tensors=(*graph.tensors, *extra))
