"""A plan's tables as lines of C++: columns aligned, one row a line, a comment that names what the row is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgen.ir.tensor import Space
from kgen.plan.plan import START_EVENT, OpRow, Plan, TensorRow

_DIGEST_BYTES_PER_LINE = 16


@dataclass(frozen=True, slots=True)
class Tables:
    """The lines of each table of `src/plan.cpp`, commas and comments included."""

    digest: tuple[str, ...]
    tensors: tuple[str, ...]
    ops: tuple[str, ...]
    runs: tuple[str, ...]
    events: tuple[str, ...]


def make_tables(plan: Plan) -> Tables:
    """Print every table of `plan`."""
    return Tables(
        digest=_digest_lines(plan.digest),
        tensors=_tensor_lines(plan),
        ops=_op_lines(plan),
        runs=_run_lines(plan),
        events=_event_lines(plan),
    )


def aligned(rows: Iterable[tuple[Sequence[str], str]]) -> tuple[str, ...]:
    """`{a, b, c},  // comment` for each (fields, comment), the fields padded to their column's width."""
    listed = list(rows)
    if not listed:
        return ()
    widths = [max(map(len, column)) for column in zip(*(fields for fields, _ in listed), strict=True)]
    texts = [_row_text(fields, widths) for fields, _ in listed]
    width = max(map(len, texts))
    return tuple(f"{text:{width}}  // {comment}" for text, (_, comment) in zip(texts, listed, strict=True))


def _row_text(fields: Sequence[str], widths: Sequence[int]) -> str:
    # Numbers stand right and words left in their column; a comma stays with its field.
    *firsts, last = zip(fields, widths, strict=True)
    cells = [f"{f:>{w}}, " if _is_number(f) else f"{f + ',':{w + 2}}" for f, w in firsts]
    return "{" + "".join(cells) + (f"{last[0]:>{last[1]}}" if _is_number(last[0]) else last[0]) + "},"


def _is_number(field: str) -> bool:
    return field.lstrip("-").isdigit()


def _digest_lines(digest: str) -> tuple[str, ...]:
    data = bytes.fromhex(digest)
    chunks = (data[i : i + _DIGEST_BYTES_PER_LINE] for i in range(0, len(data), _DIGEST_BYTES_PER_LINE))
    return tuple(", ".join(f"0x{byte:02x}" for byte in chunk) + "," for chunk in chunks)


def _tensor_lines(plan: Plan) -> tuple[str, ...]:
    def row(index: int, tensor: TensorRow) -> tuple[Sequence[str], str]:
        if tensor.space is Space.KV:
            raise ValueError(
                f"tensor {tensor.name} lies in the KV cache, which has no row in the tensor table"
            )
        numbers = (tensor.rows, tensor.cols, tensor.stride, tensor.offset)
        shape = " x ".join(map(str, tensor.shape))
        fields = (f"Space::{tensor.space.value}", *map(str, numbers))
        return fields, f"{index} {tensor.name}: {tensor.dtype.value} [{shape}]"

    return aligned(row(i, t) for i, t in enumerate(plan.tensors))


def _op_lines(plan: Plan) -> tuple[str, ...]:
    def row(index: int, op: OpRow) -> tuple[Sequence[str], str]:
        slots = "{" + ", ".join(map(str, op.operands)) + "}"
        names = ", ".join(plan.tensors[i].name for i in op.operands)
        return (str(op.variant), str(op.layer), slots), f"{index} {op.name}" + (f"({names})" if names else "")

    return aligned(row(i, op) for i, op in enumerate(plan.ops))


def _run_lines(plan: Plan) -> tuple[str, ...]:
    rows = []
    first = 0
    for run in plan.runs:
        numbers = (run.count, run.begin, run.step, run.width, run.limit, run.index, run.index_step)
        # A JIT task has no worker slot; the field is not read.
        events = (run.wait, run.trigger, 0 if run.jit else run.slot)
        launch = "Launch::jit" if run.jit else "Launch::aot"
        fields = (str(run.op), launch, *map(str, numbers), *map(str, events))
        rows.append((fields, f"{_span(first, run.count)} {plan.ops[run.op].name}"))
        first += run.count
    return aligned(rows)


def _event_lines(plan: Plan) -> tuple[str, ...]:
    op_of_task = [run.op for run in plan.runs for _ in range(run.count)]
    rows = []
    for index, event in enumerate(plan.events):
        opened = op_of_task[event.first : event.first + event.count]
        names = ", ".join(dict.fromkeys(plan.ops[op].name for op in opened))
        comment = f"{index} opens {names}" if names else f"{index} opens nothing"
        if index == START_EVENT:
            comment += " at the start of a step"
        rows.append(((str(event.threshold), str(event.first), str(event.count)), comment))
    return aligned(rows)


def _span(first: int, count: int) -> str:
    return f"task {first}" if count == 1 else f"tasks {first}..{first + count - 1}"
