"""What a user is told about a spec: where, what, what was expected, and the nearest name.

One error type for the whole front end; its text looks like a compiler's.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

JsonValue = str | int | None

_LONGEST = 200  # characters of a line that are shown
_BEFORE = 60  # of them before the place
# A spec may hold what a terminal would obey: such a character is shown as one that says so, as wide.
_SHOWN = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters [col, end_col) of one line of a file, all counted from 1. Line 0 is the file as a whole."""

    file: str
    line: int
    col: int
    end_col: int
    source: str = field(default="", compare=False)  # the line itself, for the snippet

    @classmethod
    def of_file(cls, file: str) -> Span:
        """The file as a whole, for errors that have no line."""
        return cls(file, 0, 0, 0)

    def part(self, start: int, end: int) -> Span:
        """The characters [start, end) of this span, counted from its first character."""
        return Span(self.file, self.line, self.col + start, self.col + end, self.source)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error: what is wrong at `span`, what was expected there, and the nearest name there is."""

    span: Span
    message: str
    expected: str = ""
    hint: str = ""

    def render(self) -> str:
        """Text as a compiler prints it: place and message, the line with carets, what was expected."""
        out = [f"{self.span}: error: {self.message}"]
        if self.span.line:
            out += _snippet(self.span)
        notes = [f"expected {self.expected}"] if self.expected else []
        notes += [f"did you mean '{self.hint}'?"] if self.hint else []
        return "\n".join(out + [f"  = {note}" for note in notes]).translate(_SHOWN)

    def to_json(self) -> dict[str, JsonValue]:
        """The same facts for a machine; `expected` and `hint` are null where there are none."""
        return {
            "file": self.span.file,
            "line": self.span.line,
            "col": self.span.col,
            "end_col": self.span.end_col,
            "severity": "error",
            "message": self.message,
            "expected": self.expected or None,
            "hint": self.hint or None,
        }


class SpecError(Exception):
    """A spec that cannot be used, with every error found, in the order of the file."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: list[Diagnostic] = sorted(dict.fromkeys(diagnostics), key=lambda d: d.span)
        super().__init__(self.diagnostics)

    @classmethod
    def single(cls, span: Span, message: str, *, expected: str = "", hint: str = "") -> SpecError:
        """An error that consists of one diagnostic."""
        return cls([Diagnostic(span, message, expected, hint)])

    def render(self) -> str:
        """All diagnostics as text, a blank line between them."""
        return "\n\n".join(d.render() for d in self.diagnostics)

    def to_json(self) -> list[dict[str, JsonValue]]:
        """All diagnostics for a machine."""
        return [d.to_json() for d in self.diagnostics]

    def __str__(self) -> str:
        return self.render()


def nearest(name: str, names: Iterable[str]) -> str:
    """The name that was most likely meant, or "" when none is close."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return found[0] if found else ""


def one_of(names: Sequence[str]) -> str:
    """The names as a list in a sentence: "a, b or c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _snippet(span: Span) -> list[str]:
    number = str(span.line)
    margin = " " * len(number)
    # Of a very long line, what is around the span.
    first = max(0, span.col - 1 - _BEFORE) if len(span.source) > _LONGEST else 0
    source = span.source[first : first + _LONGEST]
    # Tabs are kept in the line of carets, so that it lines up whatever the width of a tab.
    before = span.col - 1 - first
    indent = "".join(c if c == "\t" else " " for c in source[:before]).ljust(before)
    carets = "^" * max(1, min(span.end_col - span.col, _LONGEST - before))
    return [f"{margin} |", f"{number} | {source}", f"{margin} | {indent}{carets}"]
