"""How a kernel hides its communication: what the spec asks for; what it leaves open is chosen later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Schedule(StrEnum):
    """Who communicates: the SMs that compute, or SMs of their own."""

    INTRA_SM = "intra_sm"
    INTER_SM = "inter_sm"


class Transfer(StrEnum):
    """What moves the bytes. MULTIMEM (NVLink multicast) is never chosen, only asked for."""

    TMA = "tma"
    REGISTER = "register"
    COPY_ENGINE = "copy_engine"
    MULTIMEM = "multimem"


class Tile(NamedTuple):
    """What a task of a matmul computes (m x n of out), and how much of K at a time."""

    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """The choices of a spec; None is a choice that the compiler makes, as all are in AUTO."""

    schedule: Schedule | None = None
    comm_sms: int | None = None
    transfer: Transfer | None = None
    tile: Tile | None = None
    stages: int | None = None

    @property
    def inter_sm(self) -> bool:
        """Whether SMs of their own communicate: asked for, or meant by saying how many."""
        return self.schedule is Schedule.INTER_SM or (self.schedule is None and self.comm_sms is not None)


AUTO = Overlap()

# What generated kernels have.
COMM_SMS = range(2, 67, 2)  # SMs that only communicate: whole clusters, and no more than half of 132
FEW_SMS = 16  # that do where the spec does not say how many
TILE = Tile(128, 256, 64)
STAGES = range(2, 5)


def transfers(kinds: Sequence[str], deterministic: bool) -> tuple[Transfer, ...]:
    """What can move the bytes of a generated kernel, by the kinds of its operators in order.

    deterministic: additions have a fixed order, which those in the network have not.
    """
    gathers = tuple(kinds) == ("all_gather", "matmul")
    multiplies = "matmul" in kinds
    in_network = tuple(kinds) == ("all_reduce",) and not deterministic
    return (
        Transfer.REGISTER,
        *(Transfer.TMA,) * multiplies,
        *(Transfer.COPY_ENGINE,) * gathers,
        *(Transfer.MULTIMEM,) * in_network,
    )
