"""How a kernel hides its communication: what the spec asks for, and by PK's principles the rest."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.ir.kernel.dims import extent
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.overlap import FEW_SMS, STAGES, TILE, Schedule, Tile, Transfer
from kgen.plan.kernel.measured import H200
from kgen.plan.kernel.runtime import (
    COPIES_LEAST,
    NARROW_MOST,
    ONE_SHOT_BYTES,
    ONE_SHOT_MOST,
    Collective,
    Copies,
    Reduce,
    collective_of,
    copies_of,
    form_of,
    in_network,
    kept_rows,
)
from kgen.plan.kernel.tiles import divide_up


@dataclass(frozen=True)
class Choice:
    """What was chosen, and a sentence for each choice that the spec left open or made: (what, value, why)."""

    schedule: Schedule | None  # None: there is nothing to overlap with, or no SM communicates
    transfer: Transfer
    reasons: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class ProductChoice(Choice):
    """What else there is to choose for a product."""

    tile: Tile
    stages: int
    comm_sms: int  # SMs that only communicate; 0: all compute


def choose(graph: KernelGraph) -> Choice:
    """The choices for a graph that the runtime does not refuse."""
    return _of_collective(graph) if graph.matmul is None else _of_product(graph)


def _of_product(graph: KernelGraph) -> ProductChoice:
    asked, form, copies = graph.overlap, form_of(graph), copies_of(graph)
    schedule = None if copies is Copies.ALWAYS else Schedule.INTRA_SM
    comm_sms = 0
    if asked.inter_sm:
        schedule, comm_sms = Schedule.INTER_SM, asked.comm_sms or FEW_SMS
    transfer = asked.transfer or Transfer.REGISTER
    reasons: list[tuple[str, str, str]] = []

    def add(what: str, value: str, asked_for: object, why: str) -> None:
        reasons.append((what, value, _ASKED if asked_for is not None else why))

    if form.gather or form.reduce is not Reduce.NONE:
        if schedule is not None:
            add("schedule", schedule, asked.schedule, _MEANT if asked.inter_sm else _SCHEDULE[form.gather])
        if comm_sms:
            add("comm_sms", str(comm_sms), asked.comm_sms, _COMM_SMS)
        if copies is Copies.BY_SIZE:
            both = f"{Transfer.REGISTER}, {Transfer.COPY_ENGINE} from {COPIES_LEAST >> 20} MiB on"
            add("transfer", both, None, _BY_SIZE.format(rows=_rows_to_copy(graph)))
        else:
            add("transfer", transfer, asked.transfer, _TRANSFER_OF_FEW if comm_sms else _TRANSFER)
    if _least_rows(graph) <= NARROW_MOST and copies is not Copies.ALWAYS and kept_rows(graph) is None:
        exchanged = form.reduce is not Reduce.NONE
        rows = "M * (world - 1)" if exchanged else "M"
        why = _FEW_ROWS + _FEW_SUMS * exchanged + _OF_ALL * (comm_sms > 0)
        add("few rows", f"{rows} up to {NARROW_MOST}: the weight is read once", None, why)
    elif kept_rows(graph) is not None:
        add("few rows", "as others", None, _FEW_KEPT)
    stages = asked.stages or STAGES[-1]
    add("tile", " x ".join(map(str, TILE)), asked.tile, _TILE)
    add("stages", str(stages), asked.stages, _STAGES)
    return ProductChoice(schedule, transfer, tuple(reasons), TILE, stages, comm_sms)


def _rows_to_copy(graph: KernelGraph) -> str:
    """From how many rows of a rank on they are copied, where that is known; of another K as many bytes."""
    assert graph.matmul is not None
    x = graph.types[graph.matmul.x]
    k = extent(graph.dims, x.shape[1])
    if not isinstance(k, int):
        return ""
    return f" (here {divide_up(COPIES_LEAST, k * x.dtype.itemsize):,})"


def _least_rows(graph: KernelGraph) -> int:
    rows = extent(graph.dims, graph.types[graph.outputs[0]].shape[0])
    return rows if isinstance(rows, int) else rows.first


def _of_collective(graph: KernelGraph) -> Choice:
    if in_network(graph):
        return Choice(None, Transfer.MULTIMEM, _IN_NETWORK)
    what = collective_of(graph)
    why = _TRANSFER_OF_SUMS if what.sums else _TRANSFER_OF_COPIES
    reasons = [("transfer", Transfer.REGISTER.value, _ASKED if graph.overlap.transfer is not None else why)]
    if what is Collective.ALL_REDUCE:
        reasons.append(("shots", f"one up to {ONE_SHOT_MOST >> 20} MiB, two above", _SHOTS))
    if what.sums:
        reasons.append(("additions", "f32, in the order of the ranks", _ADDITIONS))
    return Choice(None, Transfer.REGISTER, tuple(reasons))


_ASKED = "the spec asks for it"
_SCHEDULE = {
    True: "rows are sent once and received once, so three warps of every SM keep the link busy while the "
    "tensor cores of all SMs compute; SMs of their own would take theirs away",
    False: "a tile is sent as soon as it is computed, by warps of the SM that computed it, so nothing "
    "waits for an SM that only sends",
}
_MEANT = "it has SMs that only communicate (comm_sms)"
_RATES = {transfer: f"{rate.rate / 1e9:.0f}" for transfer, rate in H200.transfers.items()}
_TRANSFER = (
    f"registers of all SMs reach {_RATES[Transfer.REGISTER]} GB/s, take no shared memory from the operands, "
    f"and send units small enough to be signalled early; tma reaches {_RATES[Transfer.TMA]}, but what it "
    "sends leaves later, so that small products take up to a fifth longer, and copy_engine "
    f"{_RATES[Transfer.COPY_ENGINE]}, but only with tens of megabytes at a time"
)
_FEW_RATE = f"{H200.stores(FEW_SMS).rate / 1e9:.0f}"
_COMM_SMS = (
    f"stores of {FEW_SMS} SMs reach {_FEW_RATE} of the {_RATES[Transfer.REGISTER]} GB/s of all: more of them "
    "would take more from the product than they add"
)
_TRANSFER_OF_FEW = (
    f"registers of {FEW_SMS} SMs reach {_FEW_RATE} GB/s, and send units small enough to be signalled early; "
    f"tma reaches {_RATES[Transfer.TMA]}, and copy_engine needs no SM"
)
_BY_SIZE = (
    f"registers of all SMs reach {_RATES[Transfer.REGISTER]} GB/s and send units small enough to be "
    "signalled early, but their stores stand in the way of the product's loads; copy_engine takes no SM and "
    f"reaches {_RATES[Transfer.COPY_ENGINE]} GB/s, but only with tens of megabytes at a time, so it copies "
    f"where each rank has {COPIES_LEAST >> 20} MiB of rows{{rows}} and a device of its own; tma reaches "
    f"{_RATES[Transfer.TMA]}"
)
_TRANSFER_OF_COPIES = (
    f"stores of all SMs reach {_RATES[Transfer.REGISTER]} GB/s; tma reaches {_RATES[Transfer.TMA]}, through "
    f"shared memory, and copy_engine {_RATES[Transfer.COPY_ENGINE]}, with tens of megabytes at a time"
)
_TRANSFER_OF_SUMS = (
    "what peers have is loaded into registers and added up there, with no copy between; tma would take it "
    "through shared memory, and the copy engine cannot add"
)
_SHOTS = (
    "in one shot every rank sends all of its summand to each peer and waits once; in two it adds up its "
    "share of everybody's and sends that to all, which is world / 2 times less to send, but waits twice; one "
    f"shot takes an SM for each {ONE_SHOT_BYTES >> 10} KiB, so with fewer than "
    f"{ONE_SHOT_MOST // ONE_SHOT_BYTES} SMs (`sms`, or ranks that share a GPU) two are taken of less already"
)
_IN_NETWORK = (
    ("transfer", Transfer.MULTIMEM.value, _ASKED),
    (
        "additions",
        "f32, in any order",
        "the network makes them (NVLink multicast): a rank has it add up its share of what all have, and "
        "send the sum to all",
    ),
    (
        "copies",
        "of the input and of the output",
        "the network reaches only memory that the library has bound for it, on a device for each rank",
    ),
)
_FEW_ROWS = (
    "they fill no tile, and a call takes as long as the weight takes to read: all SMs read equal parts "
    "of it, once"
)
_FEW_SUMS = (
    "; the sums are exchanged in one shot, in which every rank sends each peer all that it needs and waits "
    "once"
)
_FEW_KEPT = (
    "the gathered rows are an output, which the kernel that reads the weight once does not write: without "
    "it, calls of few rows are faster"
)
_OF_ALL = "; so there none only communicates"
_ADDITIONS = "a rank has all summands of an element in its registers, so an order costs nothing"
_TILE = "two consumer warpgroups of 64 x 256 each: the most that the registers of an SM hold"
_STAGES = "as many pieces of K as fit into the shared memory of an SM"
