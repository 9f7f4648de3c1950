"""Random DAGs for the property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.passes.dags import BoolArray


@st.composite
def dags(draw: st.DrawFn, most: int = 12) -> BoolArray:
    """Pairs bool [producer, consumer] above the diagonal, from sparse to full."""
    count = draw(st.integers(1, most))
    flags = draw(st.lists(st.booleans(), min_size=count * count, max_size=count * count))
    return np.triu(np.array(flags, dtype=np.bool_).reshape(count, count), 1)
