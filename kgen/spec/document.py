"""A YAML file as plain data plus the place of every key and value in it."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kgen.diagnostics import Diagnostic, Span, SpecError
from kgen.spec.scalars import STRING, scalar_value
from kgen.spec.syntax import compose

Key = str | int
At = tuple[Key, ...]

# Aliases can make a small file describe a huge tree.
_MAX_NODES = 200_000
# No spec or config comes near it, and PyYAML reads about 1 MB in some seconds.
_MAX_BYTES = 1 << 20


@dataclass
class Document:
    """`data` is dicts, lists and scalars; a path such as ("graph", 3, "in", 0) names one value in it."""

    file: str
    data: Any = None
    values: dict[At, Span] = field(default_factory=dict)
    keys: dict[At, Span] = field(default_factory=dict)
    plain: set[At] = field(
        default_factory=set
    )  # scalars whose text stands in the file as it is, for `within`
    unread: set[At] = field(default_factory=set)  # scalars with an error, which are None in `data`

    def value(self, path: At) -> Span:
        """Where the value at `path` stands, or its nearest ancestor that is in the file."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Span.of_file(self.file))

    def key(self, path: At) -> Span:
        """Where the key of the value at `path` stands; the value itself for items of a list."""
        return self.keys.get(path) or self.value(path)

    def within(self, path: At, start: int, end: int) -> Span:
        """The characters [start, end) of the scalar at `path`."""
        span = self.value(path)
        return span.part(start, end) if path in self.plain else span


def read_text(path: Path) -> str:
    """The text of a UTF-8 file; SpecError when it cannot be read or is not UTF-8."""
    whole = Span.of_file(str(path))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise SpecError.single(whole, "this is not a regular file")  # reading a pipe could wait for ever
        if status.st_size > _MAX_BYTES:
            message = f"the file has {status.st_size} bytes"
            raise SpecError.single(whole, message, expected=f"at most {_MAX_BYTES}")
        raw = path.read_bytes()
    except OSError as error:
        raise SpecError.single(
            whole, f"cannot read the file: {(error.strerror or str(error)).lower()}"
        ) from error
    except ValueError as error:  # a path with a NUL character
        raise SpecError.single(whole, f"cannot read the file: {error}") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        col = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        shown = raw.splitlines()[line - 1].decode("utf-8", "replace")
        span = Span(str(path), line, col, col + 1, shown)
        raise SpecError.single(
            span, f"byte 0x{raw[error.start]:02x} is not valid UTF-8", expected="UTF-8 text"
        ) from error


def parse_document(text: str, file: str) -> tuple[Document, list[Diagnostic]]:
    """The document, and errors that leave it usable (duplicate keys, bad scalars). SpecError for syntax."""
    root = compose(text, file)
    builder = _Builder(Document(file), text.splitlines())
    builder.document.data = builder.build(root, ())
    return builder.document, builder.diagnostics


class _Builder:
    def __init__(self, document: Document, lines: list[str]) -> None:
        self.document = document
        self.lines = lines
        self.diagnostics: list[Diagnostic] = []
        self.open: list[int] = []  # ids of the collections being built, to see an alias inside its own anchor
        self.count = 0

    def build(self, node: Node, path: At) -> Any:
        self.count += 1
        if self.count > _MAX_NODES:
            raise SpecError.single(self.span(node), "aliases expand to too many values")
        self.document.values[path] = self.span(node)
        if isinstance(node, ScalarNode):
            return self.scalar(node, path)
        if id(node) in self.open:
            raise SpecError.single(self.span(node), "an alias refers to the collection that contains it")
        self.open.append(id(node))
        try:
            if isinstance(node, MappingNode):
                return self.mapping(node, path)
            assert isinstance(node, SequenceNode)
            if node.tag != "tag:yaml.org,2002:seq":
                self.error(node, f"the tag '{node.tag}' is not supported")
            return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
        finally:
            self.open.pop()

    def scalar(self, node: ScalarNode, path: At) -> Any:
        span = self.span(node)
        quote = 1 if node.style in ("'", '"') else 0
        if node.style not in ("|", ">") and span.end_col - span.col - 2 * quote == len(node.value):
            self.document.plain.add(path)
            if quote and node.value:
                self.document.values[path] = span.part(1, len(node.value) + 1)
        try:
            return scalar_value(node.tag, node.value)
        except ValueError as error:
            self.error(node, str(error))
            self.document.unread.add(path)
            return None

    def mapping(self, node: MappingNode, path: At) -> dict[str, Any]:
        if node.tag != "tag:yaml.org,2002:map":
            self.error(node, f"the tag '{node.tag}' is not supported")
        result: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or key.tag != STRING:
                self.error(key, "a key must be a name", expected="a string")
                continue
            if key.value == "<<" and key.style is None:
                self.error(key, "merge keys are not part of YAML 1.2", expected="the keys written out")
                continue
            try:
                name = str(scalar_value(STRING, key.value))
            except ValueError as error:
                self.error(key, str(error))
                continue
            at = (*path, name)
            if name in result:
                first = self.document.keys[at].line
                self.error(key, f"the key '{name}' is given twice (first on line {first})")
                continue
            self.document.keys[at] = self.span(key)
            result[name] = self.build(value, at)
            if isinstance(value, ScalarNode) and value.start_mark.index == value.end_mark.index:
                self.document.values[at] = self.document.keys[at]  # nothing is there to point at
        return result

    def error(self, node: Node, message: str, *, expected: str = "") -> None:
        self.diagnostics.append(Diagnostic(self.span(node), message, expected))

    def span(self, node: Node) -> Span:
        """The node's text when it stands on one line; of a longer collection its first key or character."""
        start, end = node.start_mark, node.end_mark
        source = self.lines[start.line] if start.line < len(self.lines) else ""
        col = start.column + 1
        if start.line == end.line:
            return Span(self.document.file, start.line + 1, col, max(col + 1, end.column + 1), source)
        if isinstance(node, MappingNode) and node.value and not node.flow_style:
            return self.span(node.value[0][0])
        end_col = len(source.rstrip()) + 1 if isinstance(node, ScalarNode) else col + 1
        return Span(self.document.file, start.line + 1, col, max(col + 1, end_col), source)
