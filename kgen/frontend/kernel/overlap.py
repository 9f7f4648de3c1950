"""What a spec may ask for in `overlap`, given what its kernel does; what is expected can be generated."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.diagnostics import Diagnostic
from kgen.ir.kernel.overlap import COMM_SMS, STAGES, TILE, Overlap, Schedule, Tile, Transfer, transfers
from kgen.spec import kernel_ops as ops
from kgen.spec.document import At
from kgen.spec.kernel import KernelSpec, OverlapSpec

# A Hopper SM: what tiles its tensor cores take, and what its registers and shared memory hold.
_TILE_M, _TILE_N, _TILE_K = range(64, 257, 64), range(8, 257, 8), (32, 64, 128)
_ACCUMULATORS = 128 * 256
_SHARED_BYTES = 227 * 1024
_STAGES = range(2, 17)

Fault = tuple[At, str, str]  # where in `overlap`, what, expected


def overlap_of(written: OverlapSpec) -> Overlap:
    """What the spec asks for, as the graph has it."""
    return Overlap(
        Schedule(written.schedule) if written.schedule else None,
        written.comm_sms,
        Transfer(written.transfer) if written.transfer else None,
        Tile(*written.tile) if written.tile else None,
        written.stages,
    )


def check_overlap(spec: KernelSpec) -> list[Diagnostic]:
    """Choices that are out of range, or that go with nothing in the graph or with no other choice."""
    faults = [*_matmul(spec), *_communication(spec), *_transfer(spec)]
    found = [Diagnostic(spec.span("overlap", *at), message, expected) for at, message, expected in faults]
    return [*found, *_world(spec)]


def _world(spec: KernelSpec) -> Iterator[Diagnostic]:
    """The network adds what several devices have."""
    first, last = (spec.world,) * 2 if isinstance(spec.world, int) else (spec.world.first, spec.world.last)
    there = transfers([op.op for op in spec.graph], spec.deterministic)
    if spec.overlap.transfer == "multimem" and Transfer.MULTIMEM in there and first == 1:
        message = "multimem adds what two ranks or more have, but the world may be 1"
        yield Diagnostic(spec.span("world"), message, f"2..{last}" if last > 2 else "2")


def _matmul(spec: KernelSpec) -> Iterator[Fault]:
    asked = spec.overlap
    product = next((op for op in spec.graph if isinstance(op, ops.MatmulOp)), None)
    if product is None:
        for key in ("schedule", "tile", "stages"):
            if getattr(asked, key) is not None and not spec.gaps.graph:
                yield (key,), f"there is no matmul, so {key} has no meaning", f"no {key}"
        return
    weights = 2 if product.activation else 1
    if asked.stages is not None and asked.stages not in _STAGES:
        yield ("stages",), f"{asked.stages} is out of range", f"{STAGES[0]} to {STAGES[-1]}"
    if asked.tile is None:
        return
    m, n, k = asked.tile
    there = [*map(str, TILE), str(list(TILE))] if weights == 1 else ["no tile"] * 4  # two products share one
    if m not in _TILE_M:
        yield ("tile", 0), f"a tile of {m} rows is not possible", there[0]
    if n not in _TILE_N:
        yield ("tile", 1), f"a tile of {n} columns is not possible", there[1]
    if k not in _TILE_K:
        yield ("tile", 2), f"a tile that takes {k} of K at a time is not possible", there[2]
    if m not in _TILE_M or n not in _TILE_N or k not in _TILE_K:
        return
    if m * n * weights > _ACCUMULATORS:
        what = "two products of " if weights == 2 else ""
        message = f"{what}{m} x {n} do not fit into the registers of an SM"
        yield ("tile",), message, there[3]
    stage = (m + weights * n) * k * 2
    if asked.stages is not None and _SHARED_BYTES // stage < asked.stages <= _STAGES[-1]:
        message = f"{asked.stages} stages of {stage} bytes do not fit into the shared memory of an SM"
        yield ("stages",), message, f"at most {min(_SHARED_BYTES // stage, STAGES[-1])}"


def _communication(spec: KernelSpec) -> Iterator[Fault]:
    asked = spec.overlap
    if not spec.gaps.graph and all(isinstance(op, ops.MatmulOp) for op in spec.graph):
        for key in ("schedule", "comm_sms", "transfer"):
            if getattr(asked, key) is not None:
                yield (key,), f"this kernel does not communicate, so {key} has no meaning", f"no {key}"
        return
    if asked.comm_sms is None:
        return
    yield from _comm_sms(spec, asked.comm_sms)
    if asked.schedule == "intra_sm":
        message = "with intra_sm the SMs that compute communicate too, so there are no comm_sms"
        yield ("comm_sms",), message, "no comm_sms"
    if asked.transfer == "copy_engine":
        message = "the copy engine uses no SM, so there are no comm_sms"
        yield ("comm_sms",), message, "no comm_sms"


def _comm_sms(spec: KernelSpec, asked: int) -> Iterator[Fault]:
    there = spec.gaps.graph or any(isinstance(op, ops.MatmulOp) for op in spec.graph)  # else all SMs do
    expected = f"an even number from {COMM_SMS[0]} to {COMM_SMS[-1]}" if there else "no comm_sms"
    if asked > COMM_SMS[-1]:
        yield ("comm_sms",), f"{asked} is out of range", expected
    elif asked % 2 and there:
        yield ("comm_sms",), f"{asked} is odd, but SMs communicate in clusters of two", expected


def _transfer(spec: KernelSpec) -> Iterator[Fault]:
    asked = spec.overlap
    kinds = [op.op for op in spec.graph]
    there = transfers(kinds, spec.deterministic)
    of_sms = " or ".join(transfer for transfer in there if transfer is not Transfer.COPY_ENGINE)
    reduction = next(
        (op.op for op in spec.graph if isinstance(op, ops.ReduceScatterOp | ops.AllReduceOp)), ""
    )
    if asked.transfer == "copy_engine":
        if asked.schedule == "intra_sm":
            expected = f"no schedule, or {of_sms}" if Transfer.COPY_ENGINE in there else of_sms
            yield ("transfer",), "the copy engine is part of no SM", expected
        if reduction:
            yield ("transfer",), f"the copy engine cannot add, which {reduction} does", of_sms
    if asked.transfer == "multimem":
        if any(isinstance(op, ops.AllToAllOp) for op in spec.graph):
            message = "multimem sends the same to every rank, but all_to_all sends each its own"
            yield ("transfer",), message, " or ".join(there)
        if reduction and spec.deterministic:
            message = "multimem adds inside the network, where additions have no fixed order"
            if Transfer.MULTIMEM in transfers(kinds, deterministic=False):
                message += " (deterministic: false allows that)"
            yield ("transfer",), message, " or ".join(there)
