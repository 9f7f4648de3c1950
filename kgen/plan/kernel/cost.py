"""How long a call takes, and what hiding its communication can give, from measured constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.ir.kernel.overlap import Transfer
from kgen.plan.kernel.instance import Shape
from kgen.plan.kernel.measured import Machine
from kgen.plan.kernel.plan import ProductPlan
from kgen.plan.kernel.runtime import Reduce
from kgen.plan.kernel.tile_choice import Product, choose_tile
from kgen.plan.kernel.tiles import divide_up

_ELEMENT, _SUMMAND = 2, 4  # bytes, of a matrix and of a deterministic kernel's summands
_WORTH = 1.03  # a smaller gain is less than machines and runs differ by


@dataclass(frozen=True)
class Prediction:
    """A call on one rank, in seconds, inside a CUDA graph.

    product: the product alone, by a library. communication: the collective alone, by NCCL.
    apart: the one, then the other. own: the product by this kernel, in rounds of whole tiles. sent: what this
    kernel sends meanwhile, in its way, and of few rows afterwards. transfer: by what. fused: all of it.
    """

    sizes: Mapping[str, int]
    world: int
    product: float
    communication: float
    apart: float
    own: float
    sent: float
    fused: float
    transfer: Transfer | None = None

    @property
    def bound(self) -> float:
        """The most that hiding the library's product or NCCL's communication behind the other can gain.

        A kernel that is faster than they are can gain more.
        """
        return (self.product + self.communication) / max(self.product, self.communication)

    @property
    def speed_up(self) -> float:
        """What this kernel should gain over the product, then the collective."""
        return self.apart / self.fused

    @property
    def verdict(self) -> str:
        """Whether to fuse, and why not."""
        if self.communication == 0:
            return "nothing to hide"
        if self.speed_up >= _WORTH:
            return "worth fusing"
        if self.own > self.product * _WORTH and self.own > self.sent:
            why = f"tiles do not fill the SMs, so its product alone takes {self.own * 1e6:.0f} us"
        elif self.bound < _WORTH:
            why = f"hiding the one behind the other gains at most {self.bound - 1:.1%}"
        else:
            why = "it sends more than it hides"
        return f"not worth fusing: {why}"


def predict(plan: ProductPlan, sizes: Mapping[str, int], world: int, machine: Machine) -> Prediction:
    """A call with these values of the dims that are ranges."""
    full = {dim.name: sizes.get(dim.name, dim.hi) for dim in plan.dims}
    m = full[plan.m.dim]
    n, k = (full[part.dim] // (world if part.split else 1) for part in (plan.n, plan.k))
    if plan.narrow(m, world):
        return _narrow(plan, sizes, Shape(m, n, k, world), machine)
    product = _library(plan, m, n, k, machine)
    own = _own(plan, Shape(m, n, k, world), machine)
    launch, tile = machine.graph_launch, divide_up(k, plan.tile.k) * machine.step
    # Rows that a rank gets from its peers, or adds up.
    rows = (world - 1) * divide_up(m, world)
    count = rows * (k if plan.gather else n if plan.reduce is not Reduce.NONE else 0)
    if count == 0:
        return Prediction(sizes, world, product, 0.0, launch + product, own, 0.0, launch + own)
    communication = _nccl(plan, count, machine)
    summand = _SUMMAND if plan.reduce is not Reduce.NONE and plan.deterministic else _ELEMENT
    transfer = plan.moved_by(divide_up(m, world) * k * _ELEMENT) if plan.gather else plan.transfer
    of_sums = _ELEMENT if plan.reduce is Reduce.ALL else 0
    rate = machine.stores(plan.comm_sms) if plan.comm_sms else machine.transfers[transfer]
    sent = rate.seconds(count * (summand + of_sums))
    # A tile is sent after it is computed, or multiplied after its rows have come: one cannot be hidden.
    fused = max(own, sent + tile)
    if not plan.gather:  # the last round adds up, and a residual of as many rows as a rank has sums of
        residual = divide_up(m, world) * n * _ELEMENT if plan.residual else 0
        fused += (count * summand + residual) / machine.memory / _rounds(plan, m, n, machine)
    return Prediction(
        sizes=sizes,
        world=world,
        product=product,
        communication=communication,
        apart=launch + product + communication,
        own=own,
        sent=sent,
        fused=launch + fused + machine.flag,
        transfer=transfer,
    )


def _narrow(plan: ProductPlan, sizes: Mapping[str, int], shape: Shape, machine: Machine) -> Prediction:
    """A call of few rows: the weight is read once; rows are gathered before it, or sums exchanged after."""
    m, n, k, world = shape.m, shape.n, shape.k, shape.world
    about, others, weights = machine.narrow, world - 1, 2 if plan.silu_mul else 1
    product = _library(plan, m, n, k, machine)
    read = n * k * weights * _ELEMENT
    wide = k if plan.gather else n if plan.reduce is not Reduce.NONE else 0
    if wide == 0 or others == 0:
        own = about.alone.seconds(read, m)
        return Prediction(sizes, world, product, 0.0, machine.graph_launch + product, own, 0.0, own)
    own = about.between.seconds(read, m)
    summand = _SUMMAND if plan.reduce is not Reduce.NONE and plan.deterministic else _ELEMENT
    rows = m if plan.reduce is Reduce.ALL else divide_up(m, world)
    sent = (about.gather if plan.gather else about.exchange).seconds(others * rows * wide * summand)
    communication = _nccl(plan, others * divide_up(m, world) * wide, machine)
    apart = machine.graph_launch + product + communication
    return Prediction(sizes, world, product, communication, apart, own, sent, own + sent, plan.transfer)


def _nccl(plan: ProductPlan, count: int, machine: Machine) -> float:
    """The collective of a rank that gets, or adds up, so many elements; an all-reduce sends sums too."""
    if plan.reduce is Reduce.ALL:
        return machine.all_reduce.seconds(2 * count * _ELEMENT)
    return machine.collective.seconds(count * _ELEMENT)


def _library(plan: ProductPlan, m: int, n: int, k: int, machine: Machine) -> float:
    """The product by a library, which chooses tiles to fill the SMs and may split K."""
    weights = 2 if plan.silu_mul else 1
    least = max(2 * m * n * k * weights / machine.flops, _moved(plan, m, n, k, machine))
    read = machine.library.seconds(_ELEMENT * n * k * weights, m)
    return max(read, machine.library.around + least)


def _own(plan: ProductPlan, shape: Shape, machine: Machine) -> float:
    """The product in rounds of tiles, by the SMs that compute, which may share what rounds leave."""
    weights = 2 if plan.silu_mul else 1
    choice = choose_tile(
        Product(
            m=shape.m,
            n=shape.n * weights,
            steps=divide_up(shape.k, plan.tile.k),
            world=shape.world,
            clusters=(machine.sms - plan.comm_sms) // plan.members,
            gather=plan.gather,
            reduce=plan.reduce,
            inter_sm=plan.comm_sms != 0,
        ),
        plan.grid,
    )
    moved = _moved(plan, shape.m, shape.n, shape.k, machine)
    if plan.keep_rows:  # read and written meanwhile
        moved += 2 * shape.m * shape.k * _ELEMENT / machine.memory
    return machine.around + max(choice.ns * 1e-9, moved)


def _moved(plan: ProductPlan, m: int, n: int, k: int, machine: Machine) -> float:
    """What memory allows."""
    read_and_written = m * k + n * k * (2 if plan.silu_mul else 1) + m * n
    if plan.residual and plan.reduce is Reduce.NONE:
        read_and_written += m * n
    return _ELEMENT * read_and_written / machine.memory


def _rounds(plan: ProductPlan, m: int, n: int, machine: Machine) -> int:
    return divide_up(_tiles(plan, m, n), machine.sms - plan.comm_sms)


def _tiles(plan: ProductPlan, m: int, n: int) -> int:
    return divide_up(m, plan.tile.m) * divide_up(n * (2 if plan.silu_mul else 1), plan.tile.n)
