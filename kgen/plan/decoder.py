"""The decoders that the cluster worker can run: recognized in the tables of a plan, or why a plan is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kgen.ir.graph import AttentionDeal, Worker
from kgen.ir.operator import Constant
from kgen.plan.cluster_memory import rows_that_fit
from kgen.plan.plan import OpRow, Plan
from kgen.plan.task_templates import EMPTY_KIND

GROUPS = 8  # clusters, each of which works on one KV head
GROUP_SMS = 8  # SMs of one cluster
MOST_CLUSTERS = 16  # that the sums over clusters are written for
MAX_ROWS = 16  # token rows of a step: one side of the tensor cores' product
MAX_QUERIES = 8  # query heads of one KV head
HEADS = (64, 128)
HIDDEN_UNIT, FFN_UNIT, VOCAB_UNIT, PAGE_UNIT = 256, 32, 16, 16
CLUSTER_FFN = 64  # columns of the FFN that a cluster has at least in a layer: 8 for each SM

# The operators of a layer in order: what messages call each of them, and its kind.
_LAYER = (
    ("attention norm", "rmsnorm"),
    ("QKV projection", "linear"),
    ("attention", "attention"),
    ("output projection", "linear"),
    ("FFN norm", "rmsnorm"),
    ("gate and up projection", "swiglu"),
    ("down projection", "linear"),
)
_TAIL = (
    ("final norm", "rmsnorm"),
    ("logits", "logits"),
    ("sampling", "sample"),
    ("advance", "advance"),
)


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Indices into `Plan.tensors` of the weights of one layer; None for a norm that it does not have."""

    attention_norm: int
    qkv: int
    q_norm: int | None
    k_norm: int | None
    output: int
    ffn_norm: int
    gate: int
    up: int
    down: int


@dataclass(frozen=True, slots=True)
class Decoder:
    """A model of equal layers: norm, QKV, attention, output, norm, gated FFN, over one residual stream.

    eps is that of every norm of the residual stream, head_eps that of the norms of queries and keys. The
    numbers of RoPE mean nothing without has_rope. embedding to logits are indices into `Plan.tensors`,
    sample_op and advance_op into `Plan.ops`. pipelining: the loader runs ahead of the task that its SM works
    on. jit_attention: attention is dealt to SMs by the lengths at run time, not by position in the batch.
    """

    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocab: int
    kv_page: int
    batch: int
    rows: int
    context: int
    eps: float
    scale: float
    head_eps: float
    has_q_norm: bool
    has_k_norm: bool
    has_rope: bool
    rope_theta: float
    rope_factor: float
    rope_low_freq: float
    rope_high_freq: float
    rope_original_context: int
    layers: tuple[DecoderLayer, ...]
    embedding: int
    final_norm: int
    logits_weight: int
    tokens: int
    sampled: int
    logits: int
    sample_op: int
    advance_op: int
    pipelining: bool
    jit_attention: bool


def cluster_decoder(plan: Plan) -> Decoder | list[str]:
    """What the cluster worker runs for this plan, or why the general worker runs it instead."""
    if plan.runtime.worker is Worker.GENERAL:
        return ["the spec asks for the general worker"]
    return find_decoder(plan)


def find_decoder(plan: Plan) -> Decoder | list[str]:
    """The plan as a decoder that the cluster worker can run, or every reason found why it is none."""
    ops = [_Op(plan, i) for i, op in enumerate(plan.ops) if plan.variants[op.variant].kind != EMPTY_KIND]
    try:
        parts = _Parts.of(ops)
    except _MismatchError as mismatch:
        return [str(mismatch)]
    problems = [*_flow(parts), *_additions(parts), *_equal_layers(parts)]
    if problems:
        return problems
    decoder = _decoder(plan, parts)
    return list(_sizes(decoder)) or decoder


def used_clusters(sms: int, ffn: int) -> int:
    """How many clusters of the cluster worker run on so many SMs; 0 if there is not one for each KV head.

    ffn: columns of the FFN, of which each cluster has its share.
    """
    fit = min(sms // GROUP_SMS, MOST_CLUSTERS, ffn // CLUSTER_FFN)
    return fit if fit >= GROUPS else 0


def too_few_sms(workers: int) -> str | None:
    """Why the cluster worker does not run on so many SMs; None if it does."""
    clusters = workers // GROUP_SMS
    if clusters >= GROUPS:
        return None
    fit = f"{workers} SMs are {clusters} clusters of {GROUP_SMS}"
    return f"{fit}, fewer than the {GROUPS} KV heads"


class _MismatchError(Exception):
    """An operator that does not stand where a decoder has it."""


class _Op:
    """An operator of the plan with its constants, and its tensors by slot."""

    def __init__(self, plan: Plan, index: int) -> None:
        row: OpRow = plan.ops[index]
        variant = plan.variants[row.variant]
        self.index = index
        self.name = row.name
        self.kind = variant.kind
        self.constants: Mapping[str, Constant] = dict(variant.constants)
        self.tensors: Mapping[str, int] = dict(zip(variant.operands, row.operands, strict=True))

    def integer(self, name: str) -> int:
        return int(self.constants[name])

    def number(self, name: str) -> float:
        return float(self.constants[name])


@dataclass(frozen=True)
class _Parts:
    """The operators of a plan in their places: those of a layer, and the last ones, in the order above."""

    embedding: _Op
    layers: tuple[tuple[_Op, ...], ...]
    tail: tuple[_Op, ...]

    @staticmethod
    def of(ops: Sequence[_Op]) -> _Parts:
        """Operators by their kinds. Raises _MismatchError at the first that a decoder does not have there."""
        _match(ops[:1], (("embedding", "embedding"),))
        at, layers = 1, []
        while [op.kind for op in ops[at:]] != [kind for _, kind in _TAIL]:
            _match(ops[at : at + len(_LAYER)], _LAYER)
            layers.append(tuple(ops[at : at + len(_LAYER)]))
            at += len(_LAYER)
        if not layers:
            raise _MismatchError("the model has no layers")
        return _Parts(ops[0], tuple(layers), tuple(ops[at:]))


def _match(ops: Sequence[_Op], places: Sequence[tuple[str, str]]) -> None:
    for i, (place, kind) in enumerate(places):
        if i == len(ops):
            raise _MismatchError(f"the graph ends where a decoder has its {place} ({kind})")
        if ops[i].kind != kind:
            name = ops[i].name
            raise _MismatchError(
                f"operator `{name}` is {ops[i].kind}, where a decoder has its {place} ({kind})"
            )


def _flow(parts: _Parts) -> Iterator[str]:
    """Every operator reads what the one before it wrote, and all layers add to one residual stream."""
    stream = parts.embedding.tensors["out"]
    wrong = []
    for number, layer in enumerate(parts.layers):
        norm, qkv, attention, output, ffn_norm, swiglu, down = layer
        expected = (
            (norm, "x", stream, "reads something else than the residual stream"),
            (qkv, "x", norm.tensors["out"], "does not read the norm before it"),
            (attention, "qkv", qkv.tensors["out"], "does not read the QKV projection"),
            (output, "x", attention.tensors["out"], "does not read attention"),
            (output, "out", stream, "does not write the residual stream in place"),
            (ffn_norm, "x", stream, "reads something else than the residual stream"),
            (swiglu, "x", ffn_norm.tensors["out"], "does not read the norm before it"),
            (down, "x", swiglu.tensors["out"], "does not read the gate and up projection"),
            (down, "out", stream, "does not write the residual stream in place"),
        )
        for op, slot, tensor, message in expected:
            if op.tensors[slot] != tensor:
                wrong.append((number, f"the {_LAYER[layer.index(op)][0]} {message}"))
        for op in (output, down):
            if op.tensors.get("residual", stream) != stream:
                wrong.append((number, f"the {_LAYER[layer.index(op)][0]} adds another tensor than it writes"))
    yield from _by_layer(wrong, len(parts.layers))
    norm, logits, sample, advance = parts.tail
    if norm.tensors["x"] != stream:
        yield "the final norm reads something else than the residual stream"
    if logits.tensors["x"] != norm.tensors["out"]:
        yield "the logits do not read the final norm"
    if sample.tensors["logits"] != logits.tensors["out"]:
        yield "sampling does not read the logits"
    if (advance.tensors["sampled"], advance.tensors["tokens"]) != (
        sample.tensors["out"],
        parts.embedding.tensors["tokens"],
    ):
        yield "the sampled tokens are not those of the next step"


def _additions(parts: _Parts) -> Iterator[str]:
    """No linear layer has a bias; the two that write the residual stream add to it, and QKV does not."""
    wrong = []
    for number, layer in enumerate(parts.layers):
        for (place, kind), op in zip(_LAYER, layer, strict=True):
            if kind != "linear":
                continue
            if op.constants["has_bias"]:
                wrong.append((number, f"the {place} has a bias"))
            if op.constants["has_residual"] and place == "QKV projection":
                wrong.append((number, f"the {place} adds a residual"))
            if not op.constants["has_residual"] and place != "QKV projection":
                wrong.append((number, f"the {place} does not add the residual stream"))
    yield from _by_layer(wrong, len(parts.layers))


def _equal_layers(parts: _Parts) -> Iterator[str]:
    """All layers have the constants of layer 0, and all norms of the residual stream one eps."""
    wrong = []
    for number, layer in enumerate(parts.layers):
        for (place, _), op, first in zip(_LAYER, layer, parts.layers[0], strict=True):
            for name, value in op.constants.items():
                # Told by `_additions`; and the eps of norms is compared below.
                if name in ("has_bias", "has_residual") or (name == "eps" and op.kind == "rmsnorm"):
                    continue
                if value != first.constants[name]:
                    told = f"{name} {_text(value)}, in layer 0 {_text(first.constants[name])}"
                    wrong.append((number, f"the {place} has {told}"))
    yield from _by_layer(wrong, len(parts.layers))
    norms = [op for layer in parts.layers for op in layer if op.kind == "rmsnorm"]
    eps = sorted({op.number("eps") for op in (*norms, parts.tail[0])})
    if len(eps) > 1:
        yield f"norms of the residual stream have different eps: {', '.join(map(repr, eps))}"


def _sizes(decoder: Decoder) -> Iterator[str]:
    """What the cluster worker's tiles ask of the sizes."""
    for name, unit in (
        ("hidden", HIDDEN_UNIT),
        ("ffn", FFN_UNIT),
        ("vocab", VOCAB_UNIT),
        ("kv_page", PAGE_UNIT),
    ):
        value: int = getattr(decoder, name)
        if value % unit:
            yield f"{name} is {value}, not a multiple of {unit}"
    if decoder.ffn < CLUSTER_FFN * GROUPS:
        yield f"ffn is {decoder.ffn}, less than {CLUSTER_FFN} for each of {GROUPS} clusters"
    if decoder.head not in HEADS:
        yield f"head is {decoder.head}, not {' or '.join(map(str, HEADS))}"
    if decoder.kv_heads != GROUPS:
        yield f"there are {decoder.kv_heads} KV heads, not {GROUPS}"
    if decoder.heads // decoder.kv_heads > MAX_QUERIES:
        yield f"{decoder.heads // decoder.kv_heads} query heads share a KV head, more than {MAX_QUERIES}"
    if decoder.rows > MAX_ROWS:
        yield f"a step has {decoder.rows} rows, more than {MAX_ROWS}"
    rows = rows_that_fit(decoder, len(decoder.layers))
    if rows == 0:
        yield "shared memory has no room for a row of this model"
    elif decoder.batch > rows:
        room = f"shared memory has room for {rows} rows of this model"
        yield f"{room}, fewer than a batch of {decoder.batch}; `batch: 1..{rows}` would fit"


def _by_layer(wrong: Iterable[tuple[int, str]], layers: int) -> Iterator[str]:
    """Each sentence once, with the layers that it is about."""
    numbers: dict[str, list[int]] = {}
    for number, text in wrong:
        numbers.setdefault(text, []).append(number)
    for text, where in numbers.items():
        if len(where) == layers:
            yield f"every layer: {text}"
        else:
            yield f"layer{'s' if len(where) > 1 else ''} {', '.join(map(str, where))}: {text}"


def _text(value: Constant) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decoder(plan: Plan, parts: _Parts) -> Decoder:
    attention = parts.layers[0][2]
    norm, logits, sample, advance = parts.tail
    runtime = plan.runtime
    return Decoder(
        hidden=parts.embedding.integer("hidden"),
        heads=attention.integer("heads"),
        kv_heads=attention.integer("kv_heads"),
        head=attention.integer("head"),
        ffn=parts.layers[0][5].integer("n"),
        vocab=logits.integer("n"),
        kv_page=attention.integer("kv_page"),
        batch=runtime.batch,
        rows=runtime.rows,
        context=runtime.context,
        eps=norm.number("eps"),
        scale=attention.number("scale"),
        head_eps=attention.number("eps"),
        has_q_norm=bool(attention.constants["has_q_norm"]),
        has_k_norm=bool(attention.constants["has_k_norm"]),
        has_rope=bool(attention.constants["has_rope"]),
        rope_theta=attention.number("rope_theta"),
        rope_factor=attention.number("rope_factor"),
        rope_low_freq=attention.number("rope_low_freq"),
        rope_high_freq=attention.number("rope_high_freq"),
        rope_original_context=attention.integer("rope_original_context"),
        layers=tuple(_layer(layer) for layer in parts.layers),
        embedding=parts.embedding.tensors["table"],
        final_norm=norm.tensors["weight"],
        logits_weight=logits.tensors["weight"],
        tokens=parts.embedding.tensors["tokens"],
        sampled=sample.tensors["out"],
        logits=logits.tensors["out"],
        sample_op=sample.index,
        advance_op=advance.index,
        pipelining=runtime.pipelining,
        jit_attention=runtime.attention is not AttentionDeal.AOT,
    )


def _layer(layer: Sequence[_Op]) -> DecoderLayer:
    norm, qkv, attention, output, ffn_norm, swiglu, down = layer
    return DecoderLayer(
        attention_norm=norm.tensors["weight"],
        qkv=qkv.tensors["weight"],
        q_norm=attention.tensors.get("q_norm"),
        k_norm=attention.tensors.get("k_norm"),
        output=output.tensors["weight"],
        ffn_norm=ffn_norm.tensors["weight"],
        gate=swiglu.tensors["gate"],
        up=swiglu.tensors["up"],
        down=down.tensors["weight"],
    )
