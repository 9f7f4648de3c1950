"""What was chosen for a kernel and why, what a call should take, and where its protocol was checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from kgen.ir.kernel.overlap import Transfer
from kgen.passes.kernel.pipeline import KernelCompilation, Sample
from kgen.passes.kernel.stages import CALLS
from kgen.plan.kernel.choice import Choice
from kgen.plan.kernel.cost import Prediction, predict
from kgen.plan.kernel.cost_collective import CollectivePrediction, nccl_of, predict_collective
from kgen.plan.kernel.measured import H200, Machine
from kgen.plan.kernel.plan import CollectivePlan, KernelPlan, ProductPlan

_SHOWN_SIZES = (1, 128, 2048, 8192, 32768)  # of a dim that is a range, those in it and its largest


@dataclass(frozen=True)
class KernelReport:
    """The figures of one compilation, at some sizes of one world."""

    plan: KernelPlan
    choice: Choice
    machine: Machine
    predictions: tuple[Prediction | CollectivePrediction, ...]
    samples: tuple[Sample, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values; times in microseconds."""
        return {
            "name": self.plan.name,
            "worlds": list(self.plan.worlds),
            "choices": [{"what": a, "chosen": b, "why": c} for a, b, c in self.choice.reasons],
            "machine": self.machine.name,
            "predictions": [_prediction_json(p) for p in self.predictions],
            "samples": [
                {
                    "m": s.shape.m,
                    "n": s.shape.n,
                    "world": s.shape.world,
                    "tasks": s.tasks,
                    "pairs": s.pairs,
                    "events": s.events,
                    "crossing": {family.value: count for family, count in sorted(s.crossing.items())},
                    **({"shots": s.shots} if s.shots else {}),
                    **({"transfers": list(s.transfers)} if s.transfers else {}),
                }
                for s in self.samples
            ],
        }

    def to_table(self) -> RenderableType:
        """A table of choices, one of predicted times, one of the sizes at which the protocol was checked."""
        return Group(self._choices(), self._times(), self._checked())

    def _choices(self) -> Table:
        table = Table(title=f"{self.plan.name}: what was chosen", title_justify="left")
        for column in ("", "chosen", "why"):
            table.add_column(column)
        for row in self.choice.reasons:
            table.add_row(*row)
        return table

    def _times(self) -> Table:
        world = self.predictions[0].world
        title = f"predicted for a world of {world} {self.machine.name}, inside a CUDA graph, us"
        table = Table(title=title, title_justify="left")
        table.add_column("sizes")
        collective = isinstance(self.plan, CollectivePlan)
        for column in _COLLECTIVE_COLUMNS if collective else _PRODUCT_COLUMNS:
            table.add_column(column, justify="right")
        table.add_column("")
        for p in self.predictions:
            table.add_row(_sizes(p), *_cells(p), p.verdict)
        caption = _PRODUCT_CAPTION
        if isinstance(self.plan, CollectivePlan):
            nccl = nccl_of(self.plan, self.machine)
            caption = _COLLECTIVE_CAPTION.format(least=nccl.own / 1e6, most=nccl.points[-1][0] / 1e6)
            if self.plan.transfer is Transfer.MULTIMEM:
                caption += _IN_NETWORK_CAPTION
        launch, graph = (t * 1e6 for t in (self.machine.launch, self.machine.graph_launch))
        copied = [_sizes(p) for p in self.predictions if _copied(p)]
        if copied and len(copied) < len(self.predictions):
            caption += f" The copy engine sends at {'; '.join(copied)}, and registers at the rest."
        if isinstance(self.plan, ProductPlan) and self.plan.comm_sms:
            caption += " No run with SMs that only communicate was measured."
        table.caption = (
            f"{caption} Outside a graph a launch takes {launch:.1f} us and not {graph:.1f}. "
            f"Constants measured on {self.machine.where}."
        )
        table.caption_justify = "left"
        return table

    def _checked(self) -> Table:
        calls = "three or four" if any(len(s.transfers) > CALLS for s in self.samples) else "three"
        table = Table(title=f"protocol checked, {calls} calls on all ranks", title_justify="left")
        shots = ["shots"] if any(s.shots for s in self.samples) else []
        by = ["moved by"] if any(s.transfers for s in self.samples) else []
        for column in ("ranks", "rows", *shots, *by, "tasks", "pairs", "events"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("pairs of two ranks, by the flag that orders them")
        for s in self.samples:
            crossing = ", ".join(f"{family.value} {count:,}" for family, count in sorted(s.crossing.items()))
            sizes, found = (s.shape.world, s.shape.m, *[s.shots] * len(shots)), (s.tasks, s.pairs, s.events)
            moved = [_moved_by(s) for _ in by]
            table.add_row(*map(_counted, sizes), *moved, *map(_counted, found), crossing or "none")
        return table


_PRODUCT_COLUMNS = ("product", "comm.", "then", "fused", "gain", "bound")
_PRODUCT_CAPTION = (
    "product: by a library. comm.: NCCL. then: the one, then the other. gain: then / fused. bound: the gain "
    "if the shorter of product and comm. took no time; a kernel that multiplies or sends faster than they do "
    "can exceed it."
)
_COLLECTIVE_COLUMNS = ("MB sent", "NCCL", "here", "gain")
_COLLECTIVE_CAPTION = (
    "MB sent: by a rank. gain: NCCL / here. NCCL's time is interpolated between calls of two ranks "
    "that send {least:.3g} to {most:.0f} MB; for less, and for more ranks, it is only a guess."
)

_IN_NETWORK_CAPTION = (
    " Sums in the network were never measured: the time is the least that the bytes sent take at the rate of "
    "stores, with two copies and two waits, so that the gain is the most there can be."
)


def _cells(p: Prediction | CollectivePrediction) -> list[str]:
    if isinstance(p, CollectivePrediction):
        return [f"{p.sent / 1e6:,.3f}", *map(_shown, (p.library, p.own)), f"{p.speed_up:.2f}"]
    times = map(_shown, (p.product, p.communication, p.apart, p.fused))
    return [*times, f"{p.speed_up:.2f}", f"{p.bound:.2f}"]


def _sizes(p: Prediction | CollectivePrediction) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in p.sizes.items()) or "all compiled in"


def _copied(p: Prediction | CollectivePrediction) -> bool:
    return isinstance(p, Prediction) and p.transfer is Transfer.COPY_ENGINE


def _moved_by(sample: Sample) -> str:
    first = sample.transfers[0]
    return f"both, {first} first" if len(set(sample.transfers)) > 1 else first


def _counted(number: int) -> str:
    return f"{number:,}"


def _shown(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f}"


def explain_kernel(
    compilation: KernelCompilation,
    dims: Mapping[str, int] | None = None,
    world: int | None = None,
    machine: Machine = H200,
) -> KernelReport:
    """The report at given values of the dims that are ranges, or at some of each.

    Raises ValueError, with a sentence, for sizes or a world that the kernel cannot be called with.
    """
    plan = compilation.plan
    ranks = world or next((w for w in plan.worlds if w > 1), plan.worlds[0])
    calls = [dict(dims)] if dims else _calls(compilation, ranks)
    for call in calls:
        problems = compilation.graph.call_problems(call, ranks)
        if problems:
            raise ValueError("; ".join(problems))
    predictions = tuple(_predict(plan, call, ranks, machine) for call in calls)
    return KernelReport(plan, compilation.choice, machine, predictions, compilation.samples)


def _calls(compilation: KernelCompilation, world: int) -> Sequence[dict[str, int]]:
    """Sizes to show: of every dim that is a range the same share, others at their largest."""
    ranges = [dim for dim in compilation.plan.dims if dim.lo < dim.hi]
    if not ranges:
        return [{}]
    rows = compilation.plan.m.dim
    largest = {dim.name: _largest(compilation, dim.name, dim.lo, dim.hi, world) for dim in ranges}
    if rows not in largest:
        return [largest]
    low = next(dim.lo for dim in ranges if dim.name == rows)
    sizes = sorted({size for size in _SHOWN_SIZES if low <= size <= largest[rows]} | {largest[rows]})
    return [largest | {rows: size} for size in sizes]


def _largest(compilation: KernelCompilation, name: str, low: int, high: int, world: int) -> int:
    units = [c.unit(world) for c in compilation.graph.constraints if c.axis == name]
    unit = max(units, default=1)
    return max(high // unit * unit, low)


def _predict(
    plan: KernelPlan, call: Mapping[str, int], world: int, machine: Machine
) -> Prediction | CollectivePrediction:
    if isinstance(plan, CollectivePlan):
        return predict_collective(plan, call, world, machine)
    assert isinstance(plan, ProductPlan)
    return predict(plan, call, world, machine)


def _prediction_json(p: Prediction | CollectivePrediction) -> dict[str, Any]:
    about: dict[str, Any] = {"sizes": dict(p.sizes), "world": p.world}
    if isinstance(p, CollectivePrediction):
        about |= {"us": _microseconds(library=p.library, own=p.own), "bytes_sent": p.sent, "shots": p.shots}
        about |= {} if p.measured else {"measured": False}
    else:
        names = ("product", "communication", "apart", "own", "sent", "fused")
        about |= {"us": _microseconds(**{name: getattr(p, name) for name in names})}
        about |= {"bound": round(p.bound, 3)} | ({"transfer": p.transfer} if p.transfer else {})
    return about | {"speed_up": round(p.speed_up, 3), "verdict": p.verdict}


def _microseconds(**times: float) -> dict[str, float]:
    return {name: round(seconds * 1e6, 2) for name, seconds in times.items()}
