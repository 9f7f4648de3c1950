"""The tasks of all ranks, in random orders that their events allow, against what the graph means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kgen.ir.kernel.arithmetic import Ranks
from kgen.ir.kernel.graph import KernelGraph
from kgen.passes.kernel.decompose import make_instance
from kgen.passes.kernel.pipeline import order_tasks
from kgen.plan.kernel.instance import Instance, Shape
from kgen.plan.kernel.interp import InterpError, run_instance
from kgen.plan.kernel.tiles import TileGrid
from tests.kernels import ADDED, SMALL, kernel
from tests.passes.kernel.tasks import inputs, without

GRID = TileGrid(4, 8, 2, 2)
SIZES = [(1, 2), (13, 2), (64, 1), (29, 3), (2, 4), (41, 8)]
CALLS = 3


def case(name: str, m: int, world: int) -> tuple[KernelGraph, Instance, list[dict[str, Ranks]], list[Ranks]]:
    graph, rng = kernel((SMALL | ADDED)[name]), np.random.default_rng(m)
    instance = make_instance(
        graph, Shape(m, 24, 48 // world if name.startswith(("rs", "ar")) else 16, world), GRID, calls=CALLS
    )
    calls = [inputs(graph, {"M": m}, world, rng) for _ in range(CALLS)]
    return graph, instance, calls, [graph.evaluate(call)[graph.outputs[0]] for call in calls]


@pytest.mark.parametrize(("m", "world"), SIZES)
@pytest.mark.parametrize("name", [*SMALL, *ADDED])
def test_every_order_gives_the_same(name: str, m: int, world: int) -> None:
    graph, instance, calls, wanted = case(name, m, world)
    for seed, tgraph in enumerate(order_tasks(instance) * 2):
        found = run_instance(graph, instance, tgraph, calls, np.random.default_rng(seed))
        for mine, reference in zip(found, wanted, strict=True):
            for got, want in zip(mine, reference, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=0)


MUTANTS = [
    ("ag", "push rows/1", "multiply/1"),
    ("ag", "multiply/1", "push rows/3"),
    ("rs", "multiply/1", "push tile/1"),
    ("rs", "push tile/1", "reduce/1"),
    ("rs", "reduce/1", "push tile/3"),
    ("ar", "reduce/1", "push sum/1"),
    ("ar", "push sum/1", "use/1"),
    ("ar", "use/1", "push sum/2"),
]


@pytest.mark.parametrize(("name", "producer", "consumer"), MUTANTS)
def test_each_sort_of_event_is_needed(name: str, producer: str, consumer: str) -> None:
    graph, instance, calls, wanted = case(name, 29, 3)
    fused, _ = order_tasks(instance)
    mutant = without(fused, instance, producer, consumer)
    assert mutant.events != fused.events
    wrong = 0
    for seed in range(10):
        found = run_instance(graph, instance, mutant, calls, np.random.default_rng(seed))
        wrong += any(
            not np.array_equal(got, want)
            for mine, reference in zip(found, wanted, strict=True)
            for got, want in zip(mine, reference, strict=True)
        )
    assert wrong


def test_a_task_that_never_runs_is_told() -> None:
    graph, instance, calls, _ = case("ag", 13, 2)
    fused, _ = order_tasks(instance)
    last = replace(fused.events[-1], producers=fused.events[-1].consumers)  # tasks that wait for themselves
    stuck = replace(fused, events=(*fused.events[:-1], last))
    with pytest.raises(InterpError, match="tasks never ran"):
        run_instance(graph, instance, stuck, calls, np.random.default_rng(0))
