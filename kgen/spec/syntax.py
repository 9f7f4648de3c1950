"""YAML text to nodes with PyYAML's parser, its errors turned into diagnostics."""

from __future__ import annotations

from yaml.composer import Composer
from yaml.error import Mark, MarkedYAMLError
from yaml.events import AliasEvent
from yaml.nodes import Node, ScalarNode
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from kgen.diagnostics import Span, SpecError
from kgen.spec.scalars import PLAIN

# Deeper nesting than any spec has; PyYAML composes recursively, so a limit must come before Python's own.
_MAX_DEPTH = 50


class _Core(BaseResolver):
    """Gives plain scalars the tags of the YAML 1.2 core schema."""


for _tag, _pattern in PLAIN.items():
    _Core.add_implicit_resolver(_tag, _pattern, None)


class _TooDeep(MarkedYAMLError):
    pass


class _Loader(Reader, Scanner, Parser, Composer, _Core):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        _Core.__init__(self)
        self.nesting = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self.nesting += 1
        try:
            if self.nesting > _MAX_DEPTH and not self.check_event(AliasEvent):
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                raise _TooDeep(problem="collections are nested too deeply", problem_mark=mark)
            return super().compose_node(parent, index)
        finally:
            self.nesting -= 1


def compose(text: str, file: str) -> Node:
    """The root node of the only document in `text`; SpecError when there is none or the syntax is wrong."""
    lines = text.splitlines()
    try:
        root = _Loader(text).get_single_node()
    except MarkedYAMLError as error:
        raise _syntax_error(error, file, lines) from error
    except ReaderError as error:
        before = (text[: error.position] + "x").splitlines()
        line, col = len(before) - 1, len(before[-1]) - 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        span = _span(file, lines, line, col)
        raise SpecError.single(span, f"the character U+{code:04X} is not allowed in YAML") from error
    if root is None or (isinstance(root, ScalarNode) and root.value == ""):
        raise SpecError.single(
            _span(file, lines, 0, 0), "the file is empty", expected="a spec, which starts with 'kgen: 1'"
        )
    return root


def _syntax_error(error: MarkedYAMLError, file: str, lines: list[str]) -> SpecError:
    problem = error.problem or error.context or "invalid YAML"
    mark: Mark | None = error.problem_mark or error.context_mark
    if "unexpected end of stream" in problem:
        mark = error.context_mark  # where the quotes were opened says more than the end of the file
    span = _span(file, lines, mark.line, mark.column) if mark else Span.of_file(file)
    if isinstance(error, _TooDeep):
        return SpecError.single(span, problem)
    if error.problem == "but found another document":
        return SpecError.single(span, "a second document starts here", expected="one document in a file")
    if "'\\t'" in problem or span.source[span.col - 1 : span.col] == "\t":
        return SpecError.single(span, "a tab cannot indent YAML", expected="spaces")
    context = f" {error.context}" if error.context and error.context != problem else ""
    return SpecError.single(span, f"YAML syntax: {problem}{context}")


def _span(file: str, lines: list[str], line: int, col: int) -> Span:
    source = lines[line] if line < len(lines) else ""
    return Span(file, line + 1, col + 1, col + 2, source)
