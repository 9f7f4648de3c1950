"""What is wrong with a graph, and which part of it that is about."""

from __future__ import annotations


class Problem(str):
    """A sentence that knows the operator or the runtime limit that it is about; "" for neither.

    `setting` is a field of `Runtime`. The frontend knows where in the spec each of the two is written.
    `expected` is what would be right, "" where the sentence says so.
    """

    __slots__ = ("expected", "operator", "setting")

    operator: str
    setting: str
    expected: str

    def __new__(cls, text: str, *, operator: str = "", setting: str = "", expected: str = "") -> Problem:
        """A problem with this text."""
        problem = super().__new__(cls, text)
        problem.operator = operator
        problem.setting = setting
        problem.expected = expected
        return problem
