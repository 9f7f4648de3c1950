"""How long a collective by itself takes, and NCCL, from measured constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.ir.kernel.overlap import Transfer
from kgen.plan.kernel.measured import Curve, Machine
from kgen.plan.kernel.plan import CollectivePlan
from kgen.plan.kernel.runtime import ONE_SHOT_MOST, PIECE, Collective
from kgen.plan.kernel.tiles import divide_up

_MEASURED_WORLD = 2
_SAME = 1.03  # a smaller difference is less than machines and runs differ by


@dataclass(frozen=True)
class CollectivePrediction:
    """A call on one rank, in seconds, inside a CUDA graph. There is nothing to hide it behind.

    sent: bytes to peers, or read by them. shots: of an all-reduce, else 0. library: the time of NCCL; guess:
    which was measured for larger calls only, or for fewer ranks. measured: whether anything like it was; else
    own is what link and memory need at least.
    """

    sizes: Mapping[str, int]
    world: int
    sent: int
    shots: int
    library: float
    own: float
    guess: bool
    measured: bool = True

    @property
    def speed_up(self) -> float:
        """What this kernel should gain over NCCL."""
        return self.library / self.own

    @property
    def verdict(self) -> str:
        """In words."""
        if self.world == 1:
            return "nothing to send: a copy"
        if not self.measured:
            return "never measured; it takes no less"
        how = "as fast as"
        if not 1 / _SAME < self.speed_up < _SAME:
            how = "faster than" if self.speed_up > 1 else "slower than"
        return f"{'likely ' if self.guess else ''}{how} NCCL"


def predict_collective(
    plan: CollectivePlan, sizes: Mapping[str, int], world: int, machine: Machine
) -> CollectivePrediction:
    """A call with these values of the dims that are ranges."""
    full = {dim.name: sizes.get(dim.name, dim.hi) for dim in plan.dims}
    what, whole = plan.collective, full[plan.m.dim] * full[plan.n.dim] * plan.dtype.itemsize
    if world == 1:
        copy = machine.graph_launch + 2 * whole / machine.memory
        return CollectivePrediction(sizes, world, 0, 0, copy, copy, guess=False)
    sent = fewest = (world - 1) * _share(plan, full, world)
    nccl = nccl_of(plan, machine)
    guess = world > _MEASURED_WORLD or fewest < nccl.own
    if plan.transfer is Transfer.MULTIMEM:
        sent, own = _in_network(whole, world, machine)
        return CollectivePrediction(
            sizes, world, sent, 0, nccl.seconds(fewest), own, guess=guess, measured=False
        )
    shots, moved = 0, machine.sums if what.sums else machine.copies
    if what is Collective.ALL_REDUCE:
        shots = 1 if whole <= ONE_SHOT_MOST else 2
    if shots == 1:
        sent, moved = (world - 1) * whole, machine.one_shot
    waits = 1 if shots == 1 else 2  # else also for all to begin
    own = machine.graph_launch + waits * machine.flag + moved.seconds(sent)
    return CollectivePrediction(sizes, world, sent, shots, nccl.seconds(fewest), own, guess)


def _in_network(whole: int, world: int, machine: Machine) -> tuple[int, float]:
    """Bytes that a rank sends (all of its summand, its share of the sums), and the least time with copies."""
    sent = whole + divide_up(whole, world)
    link = sent / machine.transfers[Transfer.REGISTER].rate
    copies = 2 * (machine.graph_launch + 2 * whole / machine.memory)
    return sent, machine.graph_launch + 2 * machine.flag + link + copies


def nccl_of(plan: CollectivePlan, machine: Machine) -> Curve:
    """The times of NCCL."""
    return machine.all_reduce if plan.collective is Collective.ALL_REDUCE else machine.collective


def _share(plan: CollectivePlan, sizes: Mapping[str, int], world: int) -> int:
    """Bytes that a rank sends to one peer; of an all-reduce in two shots."""
    m, n = sizes[plan.m.dim], sizes[plan.n.dim]
    if plan.collective is Collective.ALL_REDUCE:
        return 2 * divide_up(m * n // PIECE, world) * PIECE * plan.dtype.itemsize
    return divide_up(m, world) * (n // world if plan.n.split else n) * plan.dtype.itemsize
