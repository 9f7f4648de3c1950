"""How a kernel hides its communication: what the spec asks for, and by PK's principles the rest."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.overlap import Schedule, Tile, Transfer
from kgen.plan.kernel.measured import H200
from kgen.plan.kernel.runtime import STAGES, TILE, form_of


@dataclass(frozen=True)
class Choice:
    """What was chosen, and a sentence for each choice that the spec left open or made: (what, value, why)."""

    schedule: Schedule
    transfer: Transfer
    tile: Tile
    stages: int
    reasons: tuple[tuple[str, str, str], ...]


def choose(graph: KernelGraph) -> Choice:
    """The choices for a graph that the runtime does not refuse."""
    asked, form = graph.overlap, form_of(graph)
    reasons: list[tuple[str, str, str]] = []

    def add(what: str, value: str, asked_for: object, why: str) -> None:
        reasons.append((what, value, "the spec asks for it" if asked_for is not None else why))

    if form.gather or form.reduce != "none":
        add("schedule", Schedule.INTRA_SM, asked.schedule, _SCHEDULE[form.gather])
        add("transfer", Transfer.REGISTER, asked.transfer, _TRANSFER)
    stages = asked.stages or STAGES[-1]
    add("tile", " x ".join(map(str, TILE)), asked.tile, _TILE)
    add("stages", str(stages), asked.stages, _STAGES)
    return Choice(Schedule.INTRA_SM, Transfer.REGISTER, TILE, stages, tuple(reasons))


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
_TILE = "two consumer warpgroups of 64 x 256 each: the most that the registers of an SM hold"
_STAGES = "as many pieces of K as fit into the shared memory of an SM"
