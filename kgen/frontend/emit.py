"""Plain data of a spec as YAML that reads well: short operators on one line, tensors on one or a few."""

from __future__ import annotations

import re
from typing import Any

_WIDTH = 110
# Texts that need no quotes; inside brackets { and } are punctuation.
_PLAIN_FLOW = re.compile(r"[A-Za-z_(][A-Za-z0-9_ .()+*-]*")
_PLAIN_BLOCK = re.compile(r"[A-Za-z_(][A-Za-z0-9_ .()+*{}-]*")
_WORDS = frozenset(("true", "false", "null", "~"))


def emit(data: dict[str, Any]) -> str:
    """YAML of a spec's top-level mapping, a blank line between its larger parts."""
    parts: list[str] = []
    for key, value in data.items():
        if isinstance(value, dict | list):
            parts.append("\n" + "\n".join([f"{key}:", *_block(value, 1)]))
        else:
            parts.append(f"{key}: {_scalar(value, flow=False)}")
    return "\n".join(parts) + "\n"


def _block(value: dict[str, Any] | list[Any], level: int) -> list[str]:
    """The lines of a collection in block style, its items in flow style where they fit."""
    indent = "  " * level
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            flow = f"{indent}- {_flow(item, flow=False)}"
            if _on_one_line(item, flow):
                lines.append(flow)
            else:
                first, *rest = _block(item, level + 1)
                lines += [f"{indent}- {first.lstrip()}", *rest]
        return lines
    for name, item in value.items():
        key = _scalar(name, flow=False)
        flow = f"{indent}{key}: {_flow(item, flow=False)}"
        if _on_one_line(item, flow):
            lines.append(flow)
        else:
            lines += [f"{indent}{key}:", *_block(item, level + 1)]
    return lines


def _on_one_line(value: Any, line: str) -> bool:
    """Whether `line` is how the value is written: scalars always are on one line."""
    return not isinstance(value, dict | list) or (len(line) <= _WIDTH and not _has_block(value))


def _has_block(value: Any) -> bool:
    """Whether a collection holds a list of operators, which goes one operator a line."""
    return (isinstance(value, dict) and "do" in value) or (
        isinstance(value, list) and any(isinstance(v, dict) for v in value)
    )


def _flow(value: Any, *, flow: bool = True) -> str:
    """The value on one line; `flow` says whether it stands inside brackets already."""
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{_scalar(key, flow=True)}: {_flow(item)}" for key, item in value.items()) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value, flow=flow)


def _scalar(value: Any, *, flow: bool) -> str:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    if re.fullmatch(r"[0-9]+\.\.[0-9]+", value):
        return value
    plain = _PLAIN_FLOW if flow else _PLAIN_BLOCK
    if plain.fullmatch(value) and value.lower() not in _WORDS and not value.endswith(" "):
        return value
    return '"' + "".join(_escape(c) for c in value) + '"'


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08X}"


def _number(value: float) -> str:
    """A float in its shortest form that reads back as the same number."""
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return re.sub(r"e([-+])0?", r"e\1", repr(value)).replace("e+", "e")
