from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.spec.expr import ExprError, parse_expr

DIMS = {"a": 3, "b": 5, "c_1": 7}
atoms = st.one_of(st.integers(0, 50).map(str), st.sampled_from(sorted(DIMS)))
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", "-", " * ", "*"]), inner).map("".join),
        inner.map(lambda text: f"( {text})"),
    ),
    max_leaves=6,
)


@given(expressions)
def test_value_is_that_of_python(text: str) -> None:
    wanted = eval(text.strip(), {}, dict(DIMS))
    if wanted < 1:
        with pytest.raises(ExprError, match=f"the size is {wanted}, it must be at least 1"):
            parse_expr(text).evaluate(DIMS)
    elif wanted <= 2**31 - 1:
        assert parse_expr(text).evaluate(DIMS) == wanted


@given(st.text(alphabet="ab01 +-*()/é.", max_size=20))
def test_any_text_is_an_expression_or_an_error_inside_it(text: str) -> None:
    caught: ExprError | None = None
    try:
        value = parse_expr(text).evaluate({"a": 2, "b": 3})
    except ExprError as error:
        caught = error
    if caught:
        assert 0 <= caught.start < caught.end <= len(text) + 1
    else:
        assert value >= 1


@pytest.mark.parametrize(
    ("text", "start", "end", "message"),
    [
        ("a +", 3, 4, "the size ends too early"),
        ("", 0, 1, "the size ends too early"),
        ("a b", 2, 3, "'b' is not expected here"),
        ("a // b", 2, 3, "'/' cannot be part of a size"),
        ("(a + b", 6, 7, "the size ends too early"),
        ("2 * d", 4, 5, "unknown dim 'd'"),
        ("a - 3", 0, 5, "the size is 0, it must be at least 1"),
        ("65536 * 65536", 0, 13, "the size is larger than 2147483647"),
        ("99999999999", 0, 11, "the size is larger than 2147483647"),
        ("(" * 30 + "a" + ")" * 30, 20, 21, "'(' is not expected here"),
    ],
)
def test_errors_have_a_place(text: str, start: int, end: int, message: str) -> None:
    with pytest.raises(ExprError) as caught:
        parse_expr(text).evaluate(DIMS)
    assert (str(caught.value), caught.value.start, caught.value.end) == (message, start, end)
