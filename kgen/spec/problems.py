"""Pydantic's errors as diagnostics: its locations become places in the file, its types become sentences."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic_core import ErrorDetails

from kgen.diagnostics import Diagnostic, Span, nearest, one_of
from kgen.spec.document import At, Document
from kgen.spec.fields import describe
from kgen.spec.language import KERNEL, MODEL, Language


def problem(error: ErrorDetails, document: Document, language: Language[Any]) -> Diagnostic:
    """One error of pydantic as a diagnostic."""
    path = place(error["loc"], document.data)
    kind = error["type"]
    context: dict[str, Any] = error.get("ctx", {})
    given = error["input"]
    if kind == "kgen":
        return _own(document, path, context, of_key=error["loc"][-1] == "[key]")
    if kind == "missing":
        message = f"{_subject(document, path[:-1])} needs '{path[-1]}'"
        example = "" if path[:-1] else _example(str(path[-1]), language)
        return Diagnostic(_owner(document, path[:-1]), message, example)
    if kind == "extra_forbidden":
        known = _known_keys(document, path[:-1], language)
        message = f"unknown key '{path[-1]}'"
        return Diagnostic(document.key(path), message, one_of(known), nearest(str(path[-1]), known))
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _operator(document, path, given, tuple(language.operators))
    if kind in ("too_short", "too_long"):
        return _count(document, path, context, language)
    span = document.value(path)
    subject = f"'{path[-1]}'" if path and isinstance(path[-1], str) else "this"
    if kind == "literal_error":
        choices = str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
        hint = nearest(given, choices) if isinstance(given, str) else ""
        return Diagnostic(span, f"{subject} is {describe(given)}", one_of(choices), hint)
    # What is left are collections of the wrong kind.
    expected = "a list" if kind == "list_type" else "a mapping"
    if path[:1] == ("graph",) and isinstance(path[-1], int):
        expected = "an operator {op: ...}"
    return Diagnostic(span, f"{subject} is {describe(given)}", expected)


def place(location: tuple[int | str, ...], data: Any) -> At:
    """The path in the file: pydantic's location without the tags of the unions it went through."""
    path: list[str | int] = []
    last = len(location) - 1
    for i, part in enumerate(location):
        inside = isinstance(data, dict) and part in data
        inside = inside or (isinstance(data, list) and isinstance(part, int) and part < len(data))
        if inside:
            data = data[part]
            path.append(part)
        elif i == last and isinstance(part, str) and isinstance(data, dict) and part not in _TAGS:
            path.append(part)  # a key that is missing
    return tuple(path)


_TAGS = frozenset((*MODEL.operators, *KERNEL.operators, "an operator", "a repeat", "[key]"))


def _own(document: Document, path: At, context: dict[str, Any], *, of_key: bool) -> Diagnostic:
    span = document.key(path) if of_key else document.value(path)
    if context["start"] >= 0:
        span = document.within(path, context["start"], context["end"])
    text = context["text"]
    if text.startswith("this is ") and isinstance(path[-1], str):
        text = f"'{path[-1]}' is {text.removeprefix('this is ')}"
    return Diagnostic(span, text, context["expected"], context["hint"])


def _operator(document: Document, path: At, given: Any, known: tuple[str, ...]) -> Diagnostic:
    if "op" not in given:
        return Diagnostic(_owner(document, path), "an operator needs 'op'", one_of(known))
    name = given["op"]
    hint = nearest(name, known) if isinstance(name, str) else ""
    message = f"unknown operator '{name}'" if isinstance(name, str) else f"'op' is {describe(name)}"
    return Diagnostic(document.value((*path, "op")), message, one_of(known), hint)


def _count(document: Document, path: At, context: dict[str, Any], language: Language[Any]) -> Diagnostic:
    given = context["actual_length"]
    owner = _at(document, path[:-1])
    operator = owner.get("op") if isinstance(owner, dict) and path[-1] == "in" else None
    if operator in language.operators:
        message = f"{operator} with {given} operand{'s' if given != 1 else ''}"
        operands = language.operators[str(operator)].model_fields["inputs"].description
        return Diagnostic(document.value(path), message, operands or "")
    if path[-1] == "shape":
        return Diagnostic(document.value(path), f"a shape of {given} dims", "one or two dims")
    if isinstance(owner[path[-1]], dict):
        return Diagnostic(document.value(path), f"'{path[-1]}' is empty", "at least one tensor")
    what = "tensor" if path[-1] == "outputs" else "operator"
    return Diagnostic(document.value(path), "this list is empty", f"at least one {what}")


def _example(key: str, language: Language[Any]) -> str:
    """How the line of a key of the spec may look."""
    examples = language.spec.model_fields[key].examples or []
    lines = [
        yaml.safe_dump({key: value}, default_flow_style=True, sort_keys=False, width=200)
        for value in examples
    ]
    return " or ".join(line.strip()[1:-1] for line in lines)


def _known_keys(document: Document, path: At, language: Language[Any]) -> list[str]:
    model = language.mapping_at(path, _at(document, path))
    return [field.alias or name for name, field in model.model_fields.items()]


def _at(document: Document, path: At) -> Any:
    data = document.data
    for part in path:
        data = data[part]
    return data


def _owner(document: Document, path: At) -> Span:
    return document.key(path) if path else document.value(())


def _subject(document: Document, path: At) -> str:
    if not path:
        return "the spec"
    data = _at(document, path)
    if path[0] == "graph" and isinstance(data, dict) and isinstance(path[-1], int):
        return str(data.get("op", "repeat"))
    return f"'{path[-1]}'"
