from collections import Counter

import pytest
from hypothesis import given

from kgen.passes.fuse_events import fuse_events
from kgen.passes.normalize import normalize
from kgen.passes.verify import Stage, verify
from kgen.tgraph.tgraph import EMPTY, TGraph
from tests.passes.dags import BoolArray, events, happens_before, random_graph, text
from tests.passes.strategies import dags

CASES = {
    "nothing to do": ("start => a; a => b c; b c => d", ["start => a", "a => b c", "b c => d"]),
    # a opened two events; now it opens two empty tasks, and each of them one of the events.
    "fork": ("start => a b; a => c; a b => d", ["start => a b", "e1 => c", "b e2 => d", "a => e1 e2"]),
    # c waited for two events; now for two empty tasks that each wait for one.
    "join": ("start => a b; a => c d; b => c", ["start => a b", "a => d e1", "b => e2", "e1 e2 => c"]),
    "shared fork": (
        "start => a b c; a b => d; a b c => e",
        ["start => a b c", "e1 => d", "c e2 => e", "a b => e1 e2"],
    ),
    "shared join": (
        "start => a b; a => c d; b => c d e",
        ["start => a b", "a => e1", "b => e e2", "e1 e2 => c d"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_forks_and_joins_get_empty_tasks(name: str) -> None:
    before, after = CASES[name]
    assert text(normalize(events(before))) == after


def degrees(tgraph: TGraph) -> int:
    waits = Counter(t for e in tgraph.events for t in e.consumers)
    triggers = Counter(t for e in tgraph.events for t in e.producers)
    return max([*waits.values(), *triggers.values()])


@given(dags())
def test_any_dag_keeps_its_order(mask: BoolArray) -> None:
    fused, _ = fuse_events(random_graph(mask))
    normal = normalize(fused)
    assert degrees(normal) == 1
    assert (happens_before(normal) == happens_before(fused)).all()
    verify(normal, Stage.NORMALIZED)


@given(dags(8))
def test_joins_as_well_as_forks(mask: BoolArray) -> None:
    """One event a pair, before any fusion: tasks then have many events on both sides."""
    edges = [
        f"{chr(97 + p)} => {chr(97 + c)}" for p in range(len(mask)) for c in range(len(mask)) if mask[p, c]
    ]
    sources = [chr(97 + t) for t in range(len(mask)) if not mask[:, t].any()]
    before = events("; ".join(["start => " + " ".join(sources), *edges]))
    normal = normalize(before)
    assert degrees(normal) == 1
    assert (happens_before(normal) == happens_before(before)).all()
    assert (normal.tasks.op == EMPTY).sum() == len(normal.tasks) - len(before.tasks)
