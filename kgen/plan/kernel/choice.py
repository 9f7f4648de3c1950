"""How a kernel hides its communication: what the spec asks for, and by PK's principles the rest."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.overlap import Schedule, Tile, Transfer
from kgen.plan.kernel.measured import H200
from kgen.plan.kernel.runtime import ONE_SHOT_MOST, STAGES, TILE, Collective, collective_of, form_of


@dataclass(frozen=True)
class Choice:
    """What was chosen, and a sentence for each choice that the spec left open or made: (what, value, why)."""

    schedule: Schedule | None  # None: there is nothing to overlap with
    transfer: Transfer
    reasons: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class ProductChoice(Choice):
    """What else there is to choose for a product."""

    tile: Tile
    stages: int


def choose(graph: KernelGraph) -> Choice:
    """The choices for a graph that the runtime does not refuse."""
    return _of_collective(graph) if graph.matmul is None else _of_product(graph)


def _of_product(graph: KernelGraph) -> ProductChoice:
    asked, form = graph.overlap, form_of(graph)
    reasons: list[tuple[str, str, str]] = []

    def add(what: str, value: str, asked_for: object, why: str) -> None:
        reasons.append((what, value, _ASKED if asked_for is not None else why))

    if form.gather or form.reduce != "none":
        add("schedule", Schedule.INTRA_SM, asked.schedule, _SCHEDULE[form.gather])
        add("transfer", Transfer.REGISTER, asked.transfer, _TRANSFER)
    stages = asked.stages or STAGES[-1]
    add("tile", " x ".join(map(str, TILE)), asked.tile, _TILE)
    add("stages", str(stages), asked.stages, _STAGES)
    return ProductChoice(Schedule.INTRA_SM, Transfer.REGISTER, tuple(reasons), TILE, stages)


def _of_collective(graph: KernelGraph) -> Choice:
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
_RATES = {transfer: f"{rate.rate / 1e9:.0f}" for transfer, rate in H200.transfers.items()}
_TRANSFER = (
    f"registers of all SMs reach {_RATES[Transfer.REGISTER]} GB/s, take no shared memory from the operands, "
    f"and send units small enough to be signalled early; tma reaches {_RATES[Transfer.TMA]}, and copy_engine "
    f"{_RATES[Transfer.COPY_ENGINE]}, but only with tens of megabytes at a time"
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
    "share of everybody's and sends that to all, which is world / 2 times less to send, but waits twice"
)
_ADDITIONS = "a rank has all summands of an element in its registers, so an order costs nothing"
_TILE = "two consumer warpgroups of 64 x 256 each: the most that the registers of an SM hold"
_STAGES = "as many pieces of K as fit into the shared memory of an SM"
