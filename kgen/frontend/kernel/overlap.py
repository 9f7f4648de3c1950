"""What a spec may ask for in `overlap`, given what its kernel does; what is expected can be generated."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.diagnostics import Diagnostic
from kgen.ir.kernel.overlap import COMM_SMS, STAGES, TILE, Overlap, Schedule, Tile, Transfer, transfers
from kgen.spec import kernel_ops as ops
from kgen.spec.document import At
from kgen.spec.kernel import KernelSpec, OverlapSpec

# A Hopper SM: what tiles its tensor cores take, and what its registers hold.
_TILE_M, _TILE_N, _TILE_K = range(64, 257, 64), range(8, 257, 8), (32, 64, 128)
_ACCUMULATORS = 128 * 256
_STAGES = range(2, 17)
_STAGE_BYTES = (TILE.m + TILE.n) * TILE.k * 2  # of one product, or of two that share a tile

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
    """Choices that are out of range or not there yet, or that go with nothing in the graph."""
    faults = [*_matmul(spec), *_communication(spec)]
    found = [Diagnostic(spec.span("overlap", *at), message, expected) for at, message, expected in faults]
    return [*found, *_world(spec)]


def _matmul(spec: KernelSpec) -> Iterator[Fault]:
    asked = spec.overlap
    product = next((op for op in spec.graph if isinstance(op, ops.MatmulOp)), None)
    if product is None:
        for key in ("schedule", "tile", "stages"):
            if getattr(asked, key) is not None and not spec.gaps.graph:
                yield (key,), f"there is no matmul, so {key} has no meaning", f"no {key}"
        return
    if asked.tile is not None:
        yield from _tile(Tile(*asked.tile), 2 if product.activation else 1)
    if asked.stages is None:
        return
    if asked.stages not in _STAGES:
        yield ("stages",), f"{asked.stages} is out of range", f"{STAGES[0]} to {STAGES[-1]}"
    elif asked.stages not in STAGES:
        message = f"{asked.stages} stages of {_STAGE_BYTES} bytes do not fit into the shared memory of an SM"
        yield ("stages",), message, f"at most {STAGES[-1]}"


def _tile(asked: Tile, weights: int) -> Iterator[Fault]:
    """What is wrong with the tile of a product, or of two that share one (`weights`)."""
    m, n, k = asked
    there = [*map(str, TILE), str(list(TILE))] if weights == 1 else ["no tile"] * 4
    if m not in _TILE_M:
        yield ("tile", 0), f"a tile of {m} rows is not possible", there[0]
    if n not in _TILE_N:
        yield ("tile", 1), f"a tile of {n} columns is not possible", there[1]
    if k not in _TILE_K:
        yield ("tile", 2), f"a tile that takes {k} of K at a time is not possible", there[2]
    if m not in _TILE_M or n not in _TILE_N or k not in _TILE_K:
        return
    what = "two products of " if weights == 2 else ""
    if m * n * weights > _ACCUMULATORS:
        yield ("tile",), f"{what}{m} x {n} do not fit into the registers of an SM", there[3]
    elif weights == 2 or asked != TILE:
        yield ("tile",), f"a tile of {m} x {n} x {k} is not there yet", there[3]


def _communication(spec: KernelSpec) -> Iterator[Fault]:
    if not spec.gaps.graph and all(isinstance(op, ops.MatmulOp) for op in spec.graph):
        for key in ("schedule", "comm_sms", "transfer"):
            if getattr(spec.overlap, key) is not None:
                yield (key,), f"this kernel does not communicate, so {key} has no meaning", f"no {key}"
        return
    if spec.overlap.comm_sms is not None:
        yield from _comm_sms(spec, spec.overlap.comm_sms)
    if spec.overlap.transfer is not None and not spec.gaps.graph:
        yield from _transfer(spec, Transfer(spec.overlap.transfer))


def _comm_sms(spec: KernelSpec, asked: int) -> Iterator[Fault]:
    expected = f"an even number from {COMM_SMS[0]} to {COMM_SMS[-1]}"
    copies = spec.overlap.transfer == "copy_engine" and Transfer.COPY_ENGINE in _there(spec)
    if not spec.gaps.graph and not any(isinstance(op, ops.MatmulOp) for op in spec.graph):
        yield ("comm_sms",), "there is no matmul to overlap with, so all SMs communicate", "no comm_sms"
    elif spec.overlap.schedule == "intra_sm":
        message = "with intra_sm the SMs that compute communicate too, so there are no comm_sms"
        yield ("comm_sms",), message, "no comm_sms"
    elif copies:
        yield ("comm_sms",), "the copy engine uses no SM, so there are no comm_sms", "no comm_sms"
    elif not COMM_SMS[0] <= asked <= COMM_SMS[-1]:
        yield ("comm_sms",), f"{asked} is out of range", expected
    elif asked not in COMM_SMS:
        yield ("comm_sms",), f"{asked} is odd, but SMs communicate in clusters of two", expected


def _transfer(spec: KernelSpec, asked: Transfer) -> Iterator[Fault]:
    kinds, there = [op.op for op in spec.graph], _there(spec)
    expected = " or ".join(way for way in there if way is not Transfer.MULTIMEM or not _may_be_alone(spec))
    reduction = next((kind for kind in kinds if kind in ("reduce_scatter", "all_reduce")), "")
    if asked in there:
        if asked is Transfer.COPY_ENGINE and spec.overlap.schedule is not None:
            of_sms = " or ".join(way for way in there if way is not asked)
            yield ("transfer",), "the copy engine is part of no SM", f"no schedule, or {of_sms}"
    elif asked is Transfer.COPY_ENGINE and reduction:
        yield ("transfer",), f"the copy engine cannot add, which {reduction} does", expected
    elif asked is Transfer.MULTIMEM and "all_to_all" in kinds:
        message = "multimem sends the same to every rank, but all_to_all sends each its own"
        yield ("transfer",), message, expected
    elif asked is Transfer.MULTIMEM and reduction and spec.deterministic:
        message = "multimem adds inside the network, where additions have no fixed order"
        if Transfer.MULTIMEM in transfers(kinds, deterministic=False):
            message += " (deterministic: false allows that)"
        yield ("transfer",), message, expected
    else:
        yield ("transfer",), f"transfer: {asked} is not there yet", expected


def _world(spec: KernelSpec) -> Iterator[Diagnostic]:
    """The network adds what several devices have, also once a spec allows it to."""
    kinds = [op.op for op in spec.graph]
    if spec.overlap.transfer != "multimem" or Transfer.MULTIMEM not in transfers(kinds, deterministic=False):
        return
    if _may_be_alone(spec):
        last = spec.world if isinstance(spec.world, int) else spec.world.last
        message = "multimem adds what two ranks or more have, but the world may be 1"
        yield Diagnostic(spec.span("world"), message, f"2..{last}" if last > 2 else "2")


def _there(spec: KernelSpec) -> tuple[Transfer, ...]:
    """What can move the bytes; a `deterministic` that is wrong may mean anything."""
    order = spec.deterministic and "deterministic" not in spec.gaps.sections
    return transfers([op.op for op in spec.graph], order)


def _may_be_alone(spec: KernelSpec) -> bool:
    """Whether there may be one rank only; a `world` that is wrong may mean anything."""
    first = spec.world if isinstance(spec.world, int) else spec.world.first
    return first == 1 and "world" not in spec.gaps.sections
