from hypothesis import given
from hypothesis import strategies as st

from kgen.tgraph.bits import members


@given(st.sets(st.integers(0, 40000), max_size=50))
def test_members_are_the_numbers_put_in(numbers: set[int]) -> None:
    bits = sum(1 << n for n in numbers)
    assert members(bits).tolist() == sorted(numbers)
