import numpy as np
import pytest

from kgen.ir.region import Box, Span, overlap, volume

EVERYTHING = Box(Span(0, 4), Span(0, 8), Span(0, 16))


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def row(r: int) -> Box:
    return Box(Span(0, 4), Span(r, r + 1), Span(0, 16))


def sequence(s: int) -> Box:
    return Box(Span(s, s + 1), Span(0, 8), Span(0, 16))


def meet(a: Box, b: Box) -> bool:
    return bool(overlap(a, b, (1, 1))[0, 0])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (row(2), row(2), True),
        (row(2), row(3), False),
        (sequence(1), sequence(1), True),
        (sequence(1), sequence(2), False),
        (row(2), sequence(1), True),  # which sequence row 2 belongs to is known only at run time
        (row(2), EVERYTHING, True),
        (Box(Span(0, 4), Span(0, 8), Span(0, 8)), Box(Span(0, 4), Span(0, 8), Span(8, 16)), False),
        (Box(Span(0, 4), Span(0, 8), Span(0, 9)), Box(Span(0, 4), Span(0, 8), Span(8, 16)), True),
    ],
)
def test_boxes_meet_where_all_three_intervals_do(first: Box, second: Box, expected: bool) -> None:
    assert meet(first, second) == meet(second, first) == expected


def test_boxes_of_many_tasks_at_once() -> None:
    tiles = Box(Span(0, 4), Span(0, 8), Span(array(0, 6, 12), array(6, 12, 16)))
    heads = Box(Span(array(0, 1), array(1, 2)), Span(0, 8), Span(array(0, 8), array(8, 16)))
    assert overlap(tiles, heads, (3, 2)).tolist() == [[True, False], [True, True], [False, True]]
    assert overlap(tiles, EVERYTHING, (3, 1)).tolist() == [[True]] * 3


def test_volume() -> None:
    assert volume(EVERYTHING) == 4 * 8 * 16
    tiles = Box(Span(0, 4), Span(0, 8), Span(array(0, 6, 12), array(6, 12, 16)))
    assert np.asarray(volume(tiles)).tolist() == [192, 192, 128]
