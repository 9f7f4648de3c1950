"""Scalars of the YAML 1.2 core schema: `1e-6` is a float, `on` a string, `0o17` is 15 and `010` is 10.

PyYAML speaks YAML 1.1, whose rules surprise (`yes`, `1:30`, dates), so its resolver is replaced.
"""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

_CORE = "tag:yaml.org,2002:"
_INT = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
# Tags of plain scalars and their texts, in the order they are tried: an integer also looks like a float.
PLAIN: dict[str, re.Pattern[str]] = {
    _CORE + "null": re.compile(r"(?:~|null|Null|NULL|)\Z"),
    _CORE + "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    _CORE + "int": re.compile(rf"(?:{_INT})\Z"),
    _CORE + "float": re.compile(rf"(?:{_FLOAT})\Z"),
}
STRING = _CORE + "str"

# Longer literals are refused: no number in a spec needs them, and Python refuses to convert very long ones.
_MAX_LITERAL = 400


def scalar_value(tag: str, text: str) -> Scalar:
    """The value of a scalar that has this tag. ValueError says what is wrong with the tag or the text."""
    if tag == STRING:
        return _joined(text)
    if tag not in PLAIN:
        raise ValueError(f"the tag '{tag.replace(_CORE, '!!')}' is not supported")
    if len(text) > _MAX_LITERAL:
        raise ValueError("this number is too long")
    kind = tag.removeprefix(_CORE)
    if not PLAIN[tag].match(text):
        raise ValueError(f"'{text}' is not a YAML 1.2 {kind}")
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        return _integer(text)
    # Python writes infinity and not-a-number without the dot.
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


def _joined(text: str) -> str:
    """A text whose escapes write characters as pairs of surrogates, as JSON does, with those characters."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise ValueError("an escape is half of a character") from error


def _integer(text: str) -> int:
    base = {"0o": 8, "0x": 16}.get(text[:2])
    return int(text[2:], base) if base else int(text, 10)
