"""Sizes written as expressions of dims: names, integers, + - * and parentheses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Sizes beyond this are mistakes; it also bounds the work of evaluating an expression.
MAX_SIZE = 2**31 - 1

_TOKEN = re.compile(r"\s*(?:(?P<int>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<op>[-+*()]))")
_MAX_NESTING = 20


class ExprError(ValueError):
    """An expression that cannot be read or evaluated; [start, end) are the characters at fault."""

    def __init__(self, message: str, start: int, end: int, *, name: str = "") -> None:
        super().__init__(message)
        self.start = start
        self.end = end
        self.name = name  # the unknown name, when that is the error


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Expr:
    """A size as it was written, parsed to reverse Polish order."""

    text: str
    program: tuple[_Token, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The dims it reads, in the order they appear."""
        return tuple(dict.fromkeys(t.text for t in self.program if t.kind == "name"))

    def evaluate(self, dims: Mapping[str, int]) -> int:
        """The value, which must be at least 1 (any partial result may be negative). ExprError otherwise."""
        stack: list[int] = []
        for token in self.program:
            if token.kind == "int":
                stack.append(int(token.text))
            elif token.kind == "name":
                if token.text not in dims:
                    raise ExprError(f"unknown dim '{token.text}'", token.start, token.end, name=token.text)
                stack.append(dims[token.text])
            else:
                b, a = stack.pop(), stack.pop()
                stack.append(a + b if token.text == "+" else a - b if token.text == "-" else a * b)
            if abs(stack[-1]) > MAX_SIZE:
                raise ExprError(f"the size is larger than {MAX_SIZE}", 0, len(self.text))
        if stack[0] < 1:
            raise ExprError(f"the size is {stack[0]}, it must be at least 1", 0, len(self.text))
        return stack[0]


def parse_expr(value: object) -> Expr:
    """An expression from a YAML integer or string. ExprError says where it is wrong."""
    text = str(value)
    return Expr(text, tuple(_Parser(_tokens(text), len(text)).parse()))


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if not match or not match.lastgroup:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise ExprError(f"'{text[start]}' cannot be part of a size", start, start + 1)
        kind = match.lastgroup
        if kind == "int" and len(match[kind]) > 10:
            raise ExprError(f"the size is larger than {MAX_SIZE}", match.start(kind), match.end(kind))
        tokens.append(_Token(kind, match[kind], match.start(kind), match.end(kind)))
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent over sum := product ([+-] product)*, product := atom (* atom)*."""

    def __init__(self, tokens: list[_Token], length: int) -> None:
        self.tokens = tokens
        self.position = 0
        self.end = _Token("end", "", length, length + 1)
        self.nesting = 0

    def parse(self) -> list[_Token]:
        program = self.sum()
        if self.peek().kind != "end":
            raise self.unexpected()
        return program

    def peek(self) -> _Token:
        return self.tokens[self.position] if self.position < len(self.tokens) else self.end

    def sum(self) -> list[_Token]:
        program = self.product()
        while self.peek().text in ("+", "-"):
            operator = self.take()
            program += [*self.product(), operator]
        return program

    def product(self) -> list[_Token]:
        program = self.atom()
        while self.peek().text == "*":
            operator = self.take()
            program += [*self.atom(), operator]
        return program

    def atom(self) -> list[_Token]:
        token = self.peek()
        if token.kind in ("int", "name"):
            return [self.take()]
        if token.text != "(" or self.nesting == _MAX_NESTING:
            raise self.unexpected()
        self.take()
        self.nesting += 1
        program = self.sum()
        self.nesting -= 1
        if self.peek().text != ")":
            raise self.unexpected()
        self.take()
        return program

    def take(self) -> _Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def unexpected(self) -> ExprError:
        token = self.peek()
        what = "the size ends too early" if token.kind == "end" else f"'{token.text}' is not expected here"
        return ExprError(what, token.start, token.end)
