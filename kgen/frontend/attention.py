"""The attention operator: its heads, its norms and its rotary embedding."""

from __future__ import annotations

from kgen.frontend.operands import Site
from kgen.frontend.sizes import ROWS
from kgen.frontend.tensors import Axis
from kgen.ir.attention import MAX_HEAD, Attention, Rope
from kgen.ir.tensor import DType
from kgen.spec import ops
from kgen.spec.expr import Expr


def attention(site: Site, op: ops.AttentionOp) -> Attention:
    """Check an attention operator. The caller counts the layers of the cache, so `kv_layer` is 0 here."""
    heads = _size(site, "heads", op.heads)
    kv_heads = _size(site, "kv_heads", op.kv_heads)
    head = _size(site, "head", op.head)
    width: Axis = None
    if heads and kv_heads and head:
        _check_heads(site, op, heads, kv_heads, head)
        width = (heads + 2 * kv_heads) * head
    qkv = site.read(op.inputs, ("in",), DType.F32, (ROWS, width))
    norms: list[str | None] = []
    for key, name in (("q_norm", op.q_norm), ("k_norm", op.k_norm)):
        norms.append(site.weight(name, (key,), (head,)).name if name is not None else None)
    _check_eps(site, op)
    rope = _rope(site, op.rope) if op.rope else None
    out_width = heads * head if heads and head else None
    out = site.write(op.out, DType.BF16, (ROWS, out_width), apart_from=(qkv,))
    eps = op.eps if op.eps is not None else Attention.eps
    scale = op.scale if op.scale is not None else (head or 1) ** -0.5
    return Attention(
        site.name,
        site.layer,
        qkv.name,
        out,
        0,
        heads or 1,
        kv_heads or 1,
        head or 8,
        scale,
        rope,
        norms[0],
        norms[1],
        eps,
    )


def _size(site: Site, key: str, written: Expr | None) -> int | None:
    """A size of the operator, or the dim of that name."""
    dims = site.tensors.dims
    if written is not None:
        return dims.evaluate(written, (*site.path, key))
    if key not in dims.names:
        site.tensors.error(site.path, f"attention needs '{key}'", f"{key}: <size>, or a dim named {key}")
        return None
    return dims.values.get(key)


def _check_heads(site: Site, op: ops.AttentionOp, heads: int, kv_heads: int, head: int) -> None:
    if head % 8:
        _error(site, "head", op.head, f"attention: a head of {head} is not a multiple of 8")
    if head > MAX_HEAD:
        _error(site, "head", op.head, f"attention: a head of {head} is too large", f"at most {MAX_HEAD}")
    if heads % kv_heads:
        message = f"attention: {heads} heads cannot be shared among {kv_heads} KV heads"
        _error(site, "heads", op.heads, message, f"a multiple of {kv_heads}")


def _error(site: Site, key: str, written: Expr | None, message: str, expected: str = "") -> None:
    """An error of a size: at the operator if it says the size, else at the dim."""
    at = (*site.path, key) if written is not None else ("dims", key)
    site.tensors.error(at, message, expected)


def _check_eps(site: Site, op: ops.AttentionOp) -> None:
    normed = op.q_norm is not None or op.k_norm is not None
    if normed and op.eps is None:
        site.tensors.error(
            (*site.path, "q_norm" if op.q_norm else "k_norm"), "attention: a norm needs 'eps'", "eps: 1e-6"
        )
    if op.eps is not None and not normed:
        site.tensors.error(
            (*site.path, "eps"), "attention: 'eps' belongs to q_norm and k_norm, and there is neither"
        )


def _rope(site: Site, rope: ops.RopeSpec) -> Rope:
    scaling = rope.scaling
    if scaling is None:
        return Rope(rope.theta)
    at = (*site.path, "rope", "scaling")
    if scaling.factor <= 1:
        site.tensors.error(
            (*at, "factor"), f"a factor of {scaling.factor:g} does not scale", "a factor above 1"
        )
    if scaling.low_freq_factor >= scaling.high_freq_factor:
        site.tensors.error((*at, "low_freq_factor"), "low_freq_factor must be below high_freq_factor")
    return Rope(
        rope.theta,
        scaling.factor,
        scaling.low_freq_factor,
        scaling.high_freq_factor,
        scaling.original_context,
    )
