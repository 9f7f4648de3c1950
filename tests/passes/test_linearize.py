import numpy as np
import pytest
from hypothesis import given

from kgen.passes.errors import CompileError
from kgen.passes.fuse_events import fuse_events
from kgen.passes.linearize import linearize
from kgen.passes.normalize import normalize
from kgen.passes.verify import Stage, verify
from tests.passes.dags import BoolArray, events, happens_before, random_graph, text
from tests.passes.strategies import dags


def order(text_: str) -> str:
    linear = linearize(events(text_))
    return "".join(linear.op_names[op] for op in linear.tasks.op)


def test_what_an_event_releases_is_consecutive() -> None:
    # Two chains: c waits for a and d for b, but e comes with c because the same event releases both.
    assert order("start => a b; a => c e; b => d") == "abced"


def test_events_are_numbered_in_the_order_in_which_they_open() -> None:
    linear = linearize(events("start => a b; c => d; b => c; a => e"))
    assert text(linear) == ["start => a b", "a => e", "b => c", "c => d"]
    assert [(e.consumers[0], len(e.consumers)) for e in linear.events] == [(0, 2), (2, 1), (3, 1), (4, 1)]


def test_breadth_first() -> None:
    # Depth first would run the chain a c e before b.
    assert order("start => a b; a => c; b => d; c => e; d => f") == "abcdef"


def test_tasks_that_can_never_run_are_named() -> None:
    with pytest.raises(CompileError, match=r"b\[0:1\] can never run; c\[0:1\] can never run"):
        linearize(events("start => a; c => b; b => c"))


@given(dags())
def test_any_dag(mask: BoolArray) -> None:
    normal = normalize(fuse_events(random_graph(mask))[0])
    linear = linearize(normal)
    verify(linear, Stage.LINEAR)
    assert (happens_before(linear) == happens_before(normal)).all()
    assert sorted(linear.tasks.origin.tolist()) == sorted(normal.tasks.origin.tolist())
    released = np.concatenate([np.array(e.consumers, dtype=np.int64) for e in linear.events])
    assert released.tolist() == list(range(len(linear.tasks)))
    for event in linear.events[1:]:
        assert max(event.producers) < min(event.consumers)
