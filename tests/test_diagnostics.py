from __future__ import annotations

import json

import pytest

from kgen.diagnostics import Diagnostic, Span, SpecError, nearest, one_of


def test_text_shows_place_line_and_what_was_expected() -> None:
    span = Span("model.yaml", 12, 9, 12, "  - {op: lin, in: [x]}")
    text = Diagnostic(span, "unknown operator 'lin'", "linear or add", "linear").render()
    assert text == (
        "model.yaml:12:9: error: unknown operator 'lin'\n"
        "   |\n"
        "12 |   - {op: lin, in: [x]}\n"
        "   |         ^^^\n"
        "  = expected linear or add\n"
        "  = did you mean 'linear'?"
    )


def test_carets_stand_under_text_after_a_tab() -> None:
    text = Diagnostic(Span("f", 1, 3, 4, "\tab"), "m").render()
    assert text.splitlines()[2:] == ["1 | \tab", "  | \t ^"]


@pytest.mark.parametrize("col", [1, 50, 5000, 100_000])
def test_of_a_very_long_line_the_place_is_shown(col: int) -> None:
    source = "." * (col - 1) + "here" + "." * (100_000 - col)
    line, carets = Diagnostic(Span("f", 1, col, col + 4, source), "m").render().splitlines()[2:]
    assert len(line) <= 210
    start = carets.index("^")
    assert line[start : start + carets.count("^")] == "here"


def test_carets_end_with_what_is_shown() -> None:
    text = Diagnostic(Span("f", 1, 3, 90_000, "x" * 100_000), "m").render()
    assert max(map(len, text.splitlines())) <= 210


def test_an_error_of_the_whole_file_has_no_snippet() -> None:
    assert (
        Diagnostic(Span.of_file("f.yaml"), "the file is empty").render() == "f.yaml: error: the file is empty"
    )


def test_errors_are_in_the_order_of_the_file_and_said_once() -> None:
    late, early = Span("f", 10, 1, 2), Span("f", 9, 5, 6)
    error = SpecError([Diagnostic(late, "b"), Diagnostic(early, "a"), Diagnostic(late, "b")])
    assert [(d.span.line, d.message) for d in error.diagnostics] == [(9, "a"), (10, "b")]
    assert str(error) == error.render()
    assert error.render().count("error:") == 2


def test_json_form() -> None:
    error = SpecError.single(Span("f", 2, 3, 5, "x: yy"), "wrong", expected="right")
    assert json.loads(json.dumps(error.to_json())) == [
        {
            "file": "f",
            "line": 2,
            "col": 3,
            "end_col": 5,
            "severity": "error",
            "message": "wrong",
            "expected": "right",
            "hint": None,
        }
    ]


@pytest.mark.parametrize(
    ("name", "found"), [("rmsnrm", "rmsnorm"), ("lineer", "linear"), ("zzz", ""), ("", "")]
)
def test_nearest(name: str, found: str) -> None:
    assert nearest(name, ["linear", "rmsnorm", "add"]) == found


def test_lists_in_sentences() -> None:
    assert [one_of([]), one_of(["a"]), one_of(["a", "b"]), one_of(["a", "b", "c"])] == [
        "",
        "a",
        "a or b",
        "a, b or c",
    ]


def test_what_a_terminal_would_obey_is_shown() -> None:
    """Whatever part of the text it is in; the carets stay below their place."""
    span = Span("a\x1b[2J.yaml", 1, 10, 11, "name: \x1b]0;\x07x\x9b1m")
    text = Diagnostic(span, "this is '\x1b[31m'", "\x00", "\x7f").render()
    assert not set(text) & {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))}
    lines = text.splitlines()
    assert lines[1:4] == ["  |", "1 | name: \ufffd]0;\ufffdx\ufffd1m", "  |          ^"]
