"""The scalar types that only specs of kernels have."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from kgen.spec.expr import MAX_SIZE
from kgen.spec.fields import NAME, RANGE, Range, describe, fault

MAX_WORLD = 16  # pk::lcsc::max_ranks
_NUMBER_OR_RANGE = "a number, or a range such as 1..4096"


def _extent(value: object) -> int | Range:
    """A number, which is compiled in, or a range, in which a call chooses."""
    first, last = _first_and_last(value)
    if first < 1 or last > MAX_SIZE:
        raise fault(f"{value} is out of range", expected=f"sizes from 1 to {MAX_SIZE}")
    return first if isinstance(value, int) else Range(first, last)


def _world(value: object) -> int | Range:
    """The same of ranks."""
    first, last = _first_and_last(value)
    if first < 1 or last > MAX_WORLD:
        raise fault(f"a world of {value} ranks is not possible", expected=f"1 to {MAX_WORLD} ranks")
    return first if isinstance(value, int) else Range(first, last)


def _first_and_last(value: object) -> tuple[int, int]:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise fault(f"this is {describe(value)}", expected=_NUMBER_OR_RANGE)
    if isinstance(value, int):
        return value, value
    if not re.fullmatch(RANGE[1:-1], value) or len(value) > 40:
        raise fault(f"this is {describe(value)}", expected=_NUMBER_OR_RANGE)
    first, last = (int(part) for part in value.split(".."))
    if last < first:
        raise fault(f"the range {value} is empty", expected=f"a last value of at least {first}")
    return first, last


def _axis_size(value: object) -> int | str:
    """The name of a dim, or a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        _extent(value)
        return value
    if not isinstance(value, str):
        raise fault(f"this is {describe(value)}", expected="a dim or a number")
    if not re.fullmatch(NAME[1:-1], value):
        raise fault(f"'{value}' is not a dim", expected="the name of a dim or a number")
    return value


def _axis(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise fault(f"this is {describe(value)}", expected="0 or 1")
    if value not in (0, 1):
        raise fault(f"{value} is not the number of an axis", expected="0 or 1")
    return value


def _flags(value: object) -> tuple[bool, bool]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(flag, bool) for flag in value):
        what = describe(value) if not isinstance(value, list) else "not two booleans"
        raise fault(f"this is {what}", expected="[false, true], for the first operand and for the weights")
    return value[0], value[1]


def _tile(value: object) -> tuple[int, int, int]:
    numbers = isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)
    if not isinstance(value, list) or not numbers or len(value) != 3:
        what = "not three numbers" if isinstance(value, list) else describe(value)
        raise fault(f"this is {what}", expected="[m, n, k], for example [128, 256, 64]")
    return value[0], value[1], value[2]


def _whole(value: object) -> int:
    """A whole number; the frontend says which ones can be, given the graph."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise fault(f"this is {describe(value)}", expected="a whole number")
    return value


_INTEGER = {"type": "integer", "minimum": 1, "maximum": MAX_SIZE}
_EXTENT_SCHEMA = WithJsonSchema({"anyOf": [_INTEGER, {"type": "string", "pattern": RANGE}]})
_AS_WRITTEN = PlainSerializer(lambda value: str(value) if isinstance(value, Range) else value)

Extent = Annotated[int | Range, PlainValidator(_extent), _AS_WRITTEN, _EXTENT_SCHEMA]
World = Annotated[int | Range, PlainValidator(_world), _AS_WRITTEN, _EXTENT_SCHEMA]
AxisSize = Annotated[
    int | str,
    PlainValidator(_axis_size),
    WithJsonSchema({"anyOf": [_INTEGER, {"type": "string", "pattern": NAME}]}),
]
AxisNumber = Annotated[int, PlainValidator(_axis), WithJsonSchema({"enum": [0, 1]})]
Transpose = Annotated[
    tuple[bool, bool],
    PlainValidator(_flags),
    WithJsonSchema({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2}),
]
OptionalWhole = Annotated[int | None, PlainValidator(_whole), WithJsonSchema(_INTEGER)]
OptionalTile = Annotated[
    tuple[int, int, int] | None,
    PlainValidator(_tile),
    WithJsonSchema({"type": "array", "items": _INTEGER, "minItems": 3, "maxItems": 3}),
]
