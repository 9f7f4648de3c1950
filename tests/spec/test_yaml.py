"""YAML as the spec language reads it: the core schema of YAML 1.2, places, and what is refused."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from kgen.diagnostics import Diagnostic, SpecError
from kgen.spec.document import Document, parse_document, read_text
from kgen.spec.load import load_spec
from tests.spec.edited import BASE, Marked, assert_only

# From the tables of the YAML 1.2.2 specification, chapter 10.3.
SCALARS = [
    ("1e-6", 1e-6),
    ("1E+3", 1000.0),
    (".5", 0.5),
    ("1.", 1.0),
    ("-1.5e3", -1500.0),
    ("12", 12),
    ("-7", -7),
    ("010", 10),
    ("0o17", 15),
    ("0x1F", 31),
    ("1_000", "1_000"),
    ("0b11", "0b11"),
    ("1:30", "1:30"),
    ("190:20:30.15", "190:20:30.15"),
    ("2001-12-14", "2001-12-14"),
    ("on", "on"),
    ("Off", "Off"),
    ("yes", "yes"),
    ("n", "n"),
    ("y", "y"),
    ("true", True),
    ("FALSE", False),
    ("tRUE", "tRUE"),
    ("~", None),
    ("null", None),
    ("", None),
    ("nUll", "nUll"),
    ("1..16", "1..16"),
    (".inf", math.inf),
    ("-.INF", -math.inf),
    ("inf", "inf"),
    ("e5", "e5"),
    ("'12'", "12"),
    ('"true"', "true"),
    ("!!str 12", "12"),
    ("!!float 12", 12.0),
    ("!!int 0x10", 16),
    ("=", "="),
    ('"\\ud83d\\ude00"', "\U0001f600"),
]


def parse(text: str) -> Document:
    document, errors = parse_document(text, "spec.yaml")
    assert not errors
    return document


def errors_of(text: str) -> list[Diagnostic]:
    try:
        return parse_document(text, "spec.yaml")[1]
    except SpecError as error:
        return error.diagnostics


@pytest.mark.parametrize(("text", "value"), SCALARS, ids=[t or "empty" for t, _ in SCALARS])
def test_scalars_of_the_core_schema(text: str, value: Any) -> None:
    read = parse(f"a: {text}\n").data["a"]
    assert read == value
    assert type(read) is type(value)


def test_not_a_number() -> None:
    assert math.isnan(parse("a: .NaN").data["a"])


def test_places_of_keys_and_values() -> None:
    document = parse("a: [x, {b: 'y z'}]\nlong:\n  - 1\n  - k: 2\n")

    def at(span: Any) -> tuple[int, int, int]:
        return span.line, span.col, span.end_col

    assert at(document.key(("a",))) == (1, 1, 2)
    assert at(document.value(("a",))) == (1, 4, 19)
    assert at(document.value(("a", 0))) == (1, 5, 6)
    assert at(document.key(("a", 1, "b"))) == (1, 9, 10)
    assert at(document.value(("a", 1, "b"))) == (1, 13, 16)
    assert at(document.value(("long", 1))) == (
        4,
        5,
        6,
    )  # a mapping of several lines is shown by its first key
    assert at(document.value(("long", 1, "k"))) == (4, 8, 9)
    assert at(document.value(("long", 1, "k", "deeper"))) == (4, 8, 9)
    assert document.value(("a", 0)).source == "a: [x, {b: 'y z'}]"
    assert at(document.within(("a", 1, "b"), 2, 3)) == (1, 15, 16)


def test_an_alias_repeats_a_value() -> None:
    assert parse("a: &x [1, 2]\nb: *x\n").data == {"a": [1, 2], "b": [1, 2]}


SYNTAX = {
    "tab": ("a:\n«\t»b: 1\n", "a tab cannot indent YAML | spaces"),
    "tab after a dash": ("a:\n-«\t»- 1\n", "a tab cannot indent YAML | spaces"),
    "unclosed bracket": (
        "a: [1, 2\nb«:» 3\n",
        "YAML syntax: expected ',' or ']', but got ':' while parsing a flow sequence",
    ),
    "duplicate key": ("a: 1\nb: 2\n«a»: 3\n", "the key 'a' is given twice (first on line 1)"),
    "duplicate key inside": ("a: {b: 1, «b»: 2}\n", "the key 'b' is given twice (first on line 1)"),
    "merge key": (
        "a: &x {b: 1}\nc:\n  «<<»: *x\n",
        "merge keys are not part of YAML 1.2 | the keys written out",
    ),
    "second document": ("a: 1\n«-»--\nb: 2\n", "a second document starts here | one document in a file"),
    "key is a number": ("a: 1\n«3»: 2\n", "a key must be a name | a string"),
    "key is a boolean": ("«true»: 2\n", "a key must be a name | a string"),
    "key is a list": ("? «[a]»\n: 2\n", "a key must be a name | a string"),
    "undefined alias": ("a: «*»x\n", "YAML syntax: found undefined alias 'x'"),
    "tag": ("a: «!thing 3»\n", "the tag '!thing' is not supported"),
    "tag of python": (
        "a: «!!python/name:os.system x»\n",
        "the tag '!!python/name:os.system' is not supported",
    ),
    "tag of a mapping": ("a: «!thing {b: 1}»\n", "the tag '!thing' is not supported"),
    "bad integer": ("a: «!!int x1»\n", "'x1' is not a YAML 1.2 int"),
    "very long number": (f"a: «{'9' * 5000}»\n", "this number is too long"),
    "half a character": ('a: «"\\ud83d"»\n', "an escape is half of a character"),
    "half a character in a key": ('«"\\ud83d"»: 1\n', "an escape is half of a character"),
    "control character": ("a: b\nc: «\x07»d\n", "the character U+0007 is not allowed in YAML"),
    "too deep": (f"a: {'[' * 49}«[»[{']' * 50}\n", "collections are nested too deeply"),
    "percent": (
        "a: 1\nb: «%»x\n",
        "YAML syntax: found character '%' that cannot start any token while scanning for the next token",
    ),
}


@pytest.mark.parametrize(("text", "words"), SYNTAX.values(), ids=SYNTAX.keys())
def test_refused(text: str, words: str) -> None:
    marked = Marked(text)
    assert_only(errors_of(marked.text), marked, words)


def test_an_alias_cannot_contain_itself() -> None:
    assert [d.message for d in errors_of("a: &x\n  - *x\n")] == [
        "an alias refers to the collection that contains it"
    ]


def test_aliases_cannot_explode() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert [d.message for d in errors_of("\n".join(lines))] == ["aliases expand to too many values"]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n"])
def test_an_empty_file(text: str) -> None:
    found = errors_of(text)
    assert [(str(d.span), d.message, d.expected) for d in found] == [
        ("spec.yaml:1:1", "the file is empty", "a spec, which starts with 'kgen: 1'")
    ]


def file_error(path: Path) -> Diagnostic:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert len(caught.value.diagnostics) == 1
    return caught.value.diagnostics[0]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    found = file_error(tmp_path / "none.yaml")
    assert found.render() == f"{tmp_path}/none.yaml: error: cannot read the file: no such file or directory"


def test_a_folder(tmp_path: Path) -> None:
    assert file_error(tmp_path).message == "cannot read the file: is a directory"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    assert file_error(pipe).message == "this is not a regular file"


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(100 << 20)
    assert file_error(huge).message == "the file has 104857600 bytes"


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("kgen: 1\n# größe\n".encode("latin-1"))
    found = file_error(path)
    assert (found.span.line, found.span.col, found.span.end_col) == (2, 5, 6)
    assert (found.message, found.expected) == ("byte 0xf6 is not valid UTF-8", "UTF-8 text")


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load_spec(path).name == "small"
    assert read_text(path).startswith("kgen")
