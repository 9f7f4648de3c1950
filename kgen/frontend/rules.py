"""What each operator wants of its operands, and the IR operator it becomes. One function per kind.

The dtypes are those of `kgen.ir`: what a matrix product reads is bf16, what accumulates is f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgen.frontend.attention import attention
from kgen.frontend.operands import Site
from kgen.frontend.sizes import BATCH, ROWS
from kgen.ir.elementwise import Add, SiluMul
from kgen.ir.embedding import Embedding
from kgen.ir.linear import Linear, Logits, SwiGlu
from kgen.ir.operator import Operator
from kgen.ir.rmsnorm import RmsNorm
from kgen.ir.sample import Sample
from kgen.ir.tensor import DType
from kgen.spec import ops

BF16, F32, I32 = DType.BF16, DType.F32, DType.I32


def _embedding(site: Site, op: ops.EmbeddingOp) -> Operator:
    tokens = site.read(op.inputs[0], ("in", 0), I32, (ROWS,))
    table = site.weight(op.inputs[1], ("in", 1), (None, None))
    out = site.write(op.out, F32, (ROWS, table.cols), apart_from=(tokens,))
    return Embedding(site.name, site.layer, tokens.name, table.name, out)


def _rmsnorm(site: Site, op: ops.RmsNormOp) -> Operator:
    x = site.read(op.inputs[0], ("in", 0), F32, (ROWS, None))
    weight = site.weight(op.inputs[1], ("in", 1), (x.cols,), x)
    out = site.write(op.out, BF16, (ROWS, x.cols), apart_from=(x,))
    return RmsNorm(site.name, site.layer, x.name, weight.name, out, op.eps)


def _linear(site: Site, op: ops.LinearOp) -> Operator:
    x = site.read(op.inputs[0], ("in", 0), BF16, (ROWS, None))
    weight = site.weight(op.inputs[1], ("in", 1), (None, x.cols), x)
    bias = residual = None
    if len(op.inputs) > 2:
        bias = site.weight(op.inputs[2], ("in", 2), (weight.rows,), weight).name
    if op.residual is not None:
        residual = site.read(op.residual, ("residual",), F32, (ROWS, weight.rows), weight).name
    out = site.write(op.out, F32, (ROWS, weight.rows), apart_from=(x,))
    return Linear(site.name, site.layer, x.name, weight.name, out, bias, residual)


def _swiglu(site: Site, op: ops.SwiGluOp) -> Operator:
    x = site.read(op.inputs[0], ("in", 0), BF16, (ROWS, None))
    gate = site.weight(op.inputs[1], ("in", 1), (None, x.cols), x)
    up = site.weight(op.inputs[2], ("in", 2), (gate.rows, x.cols), gate)
    out = site.write(op.out, BF16, (ROWS, gate.rows), apart_from=(x,))
    return SwiGlu(site.name, site.layer, x.name, gate.name, up.name, out)


def _silu_mul(site: Site, op: ops.SiluMulOp) -> Operator:
    gate = site.read(op.inputs[0], ("in", 0), F32, (ROWS, None))
    up = site.read(op.inputs[1], ("in", 1), F32, (ROWS, gate.cols), gate)
    out = site.write(op.out, BF16, (ROWS, gate.cols), apart_from=(gate, up))
    return SiluMul(site.name, site.layer, gate.name, up.name, out)


def _add(site: Site, op: ops.AddOp) -> Operator:
    a = site.read(op.inputs[0], ("in", 0), F32, (ROWS, None))
    b = site.read(op.inputs[1], ("in", 1), F32, (ROWS, a.cols), a)
    out = site.write(op.out, F32, (ROWS, a.cols))
    return Add(site.name, site.layer, a.name, b.name, out)


def _logits(site: Site, op: ops.LogitsOp) -> Operator:
    x = site.read(op.inputs[0], ("in", 0), BF16, (ROWS, None))
    weight = site.weight(op.inputs[1], ("in", 1), (None, x.cols), x)
    out = site.write(op.out, F32, (BATCH, weight.rows), apart_from=(x,))
    return Logits(site.name, site.layer, x.name, weight.name, out)


def _sample(site: Site, op: ops.SampleOp) -> Operator:
    logits = site.read(op.inputs, ("in",), F32, (BATCH, None))
    # `out` names the tokens of the next step; what is drawn goes through a buffer of its own.
    out = f"{op.out}.sampled"
    site.write(out, I32, (BATCH,))
    site.flow.read.add((*site.path, "out"))  # by the advance task
    return Sample(site.name, site.layer, logits.name, out)


RULES: dict[type[ops.Node], Callable[[Site, Any], Operator]] = {
    ops.EmbeddingOp: _embedding,
    ops.RmsNormOp: _rmsnorm,
    ops.LinearOp: _linear,
    ops.SwiGluOp: _swiglu,
    ops.SiluMulOp: _silu_mul,
    ops.AddOp: _add,
    ops.AttentionOp: attention,
    ops.LogitsOp: _logits,
    ops.SampleOp: _sample,
}
