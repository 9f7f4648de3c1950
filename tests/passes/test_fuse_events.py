import pytest
from hypothesis import given

from kgen.passes.fuse_events import fuse_events
from tests.passes.dags import BoolArray, closure, happens_before, pairs, random_graph, text
from tests.passes.strategies import dags

CASES = {
    "chain": ("a -> b; b -> c", ["start => a", "a => b", "b => c"]),
    "fork and join": ("a -> b c; b c -> d", ["start => a", "a => b c", "b c => d"]),
    "implied pair": ("a -> b c d; b -> c; c -> d", ["start => a", "a => b", "b => c", "c => d"]),
    "two layers": ("a b -> c d e; c d e -> f g", ["start => a b", "a b => c d e", "c d e => f g"]),
    # The pair a -> c is implied by a -> b only for the tasks behind b.
    "implied for some": ("a -> b c d; b -> c", ["start => a", "a => b d", "b => c"]),
    "different producers": ("a -> c d; b -> d", ["start => a b", "a => c", "a b => d"]),
    "apart": ("a -> b; c -> d", ["start => a c", "a => b", "c => d"]),
}


@pytest.mark.parametrize("name", CASES)
def test_pairs_become_events(name: str) -> None:
    before, after = CASES[name]
    fused, _ = fuse_events(pairs(before))
    assert text(fused) == after


def test_counts_say_what_each_step_did() -> None:
    # Needed: a b -> c d e (6) and c d e -> f g (6); a b -> f g (4) are implied. Five tasks wait, on two sets.
    _, stats = fuse_events(pairs("a b -> c d e f g; c d e -> f g"))
    assert (stats.pairs, stats.needed) == (16, 12)
    assert (stats.after_successor_fusion, stats.after_predecessor_fusion) == (5, 2)


@given(dags())
def test_happens_before_is_the_closure_of_the_pairs(mask: BoolArray) -> None:
    fused, _ = fuse_events(random_graph(mask))
    assert (happens_before(fused) == closure(mask)).all()


@given(dags())
def test_no_producer_can_be_left_out_and_no_events_joined(mask: BoolArray) -> None:
    fused, stats = fuse_events(random_graph(mask))
    order = closure(mask)
    for event in fused.events[1:]:
        assert not order[list(event.producers)][:, list(event.producers)].any()
    assert len({e.producers for e in fused.events[1:]}) == len(fused.events) - 1
    assert len({e.consumers for e in fused.events[1:]}) == len(fused.events) - 1
    assert stats.after_predecessor_fusion == len(fused.events) - 1
    assert sorted(t for e in fused.events for t in e.consumers) == list(range(len(mask)))
