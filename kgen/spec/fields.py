"""The scalar types of the spec language, each a validator with messages of its own and a JSON Schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from kgen.spec.expr import MAX_SIZE, Expr, ExprError, parse_expr
from kgen.spec.reserved import reserved

NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
MODEL_NAME = r"^[a-z][a-z0-9_]*$"
RANGE = r"^\s*[0-9]+\s*\.\.\s*[0-9]+\s*$"
SMALLEST, LARGEST = 1e-37, 1e37  # fp32 holds numbers between them without loss of digits
EXPR = r"^[A-Za-z0-9_+*() -]+$"


def fault(
    message: str, *, expected: str = "", hint: str = "", start: int = -1, end: int = -1
) -> PydanticCustomError:
    """An error of one field; [start, end) narrows it to characters of the scalar."""
    context = {"text": message, "expected": expected, "hint": hint, "start": start, "end": end}
    return PydanticCustomError("kgen", "{text}", context)


def describe(value: object) -> str:
    """What a YAML value is, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text '{value}'"
    return "a list" if isinstance(value, list) else "a mapping"


@dataclass(frozen=True, slots=True)
class Range:
    """`first..last`, both included; which value it is, is decided at run time."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise fault(f"this is {describe(value)}", expected="a name")
    if not re.fullmatch(NAME[1:-1], value):
        raise fault(f"'{value}' is not a name", expected="letters, digits and _, not starting with a digit")
    return value


def _model_name(value: object) -> str:
    if not isinstance(value, str):
        raise fault(f"this is {describe(value)}", expected="a name")
    if not re.fullmatch(MODEL_NAME[1:-1], value):
        raise fault(
            f"'{value}' cannot name a C library",
            expected="lower case letters, digits and _, starting with a letter",
            hint=_usable_name(value),
        )
    reason = "is too long" if len(value) > 63 else reserved(value)
    if reason:
        raise fault(f"'{value}' {reason}", expected="another name of at most 63 characters")
    return value


def _usable_name(value: str) -> str:
    usable = re.sub(r"[^a-z0-9]+", "_", value.lower()).strip("_")
    return usable if re.fullmatch(MODEL_NAME[1:-1], usable) else ""


def _size(value: object) -> Expr:
    if isinstance(value, str) and re.fullmatch(RANGE[1:-1], value):
        raise fault(
            f"{value} is decided at run time, but every dim of a model is compiled in",
            expected="a number (runtime.batch and runtime.context are the ranges of a model)",
        )
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise fault(f"this is {describe(value)}", expected="a size: a number or an expression of dims")
    try:
        expr = parse_expr(value)
        if not expr.names:
            expr.evaluate({})
    except ExprError as error:
        raise fault(
            str(error), expected="names, integers, + - * and parentheses", start=error.start, end=error.end
        ) from error
    return expr


def _range(value: object) -> Range:
    if not isinstance(value, str) or not re.fullmatch(RANGE[1:-1], value) or len(value) > 40:
        raise fault(f"this is {describe(value)}", expected="a range such as 1..16")
    first, last = (int(part) for part in value.split(".."))
    if first != 1:
        raise fault(f"the range starts at {first}", expected=f"1..{max(last, 1)}")
    if last < first:
        raise fault(f"the range {value} is empty", expected="a last value of at least 1")
    return Range(first, last)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise fault(f"this is {describe(value)}", expected="a whole number")
    if not 1 <= value < 2**31:
        raise fault(f"{value} is out of range", expected="a whole number from 1 to 2147483647")
    return value


def is_positive(value: object) -> bool:
    """Whether a value is a number above 0 that fp32, in which generated code holds it, can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and SMALLEST <= value <= LARGEST


def _positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise fault(f"this is {describe(value)}", expected="a number")
    if not is_positive(value):
        raise fault(f"{value} is out of range", expected="a positive number that fp32 can hold")
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise fault(f"this is {describe(value)}", expected="true or false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise fault(f"this is {describe(value) if value != '' else 'empty'}", expected="text")
    return value


def _sources(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and value and all(isinstance(item, str) and item for item in value):
        return tuple(value)
    if isinstance(value, str) and value:
        return (value,)
    if isinstance(value, list):
        raise fault("this is not a list of checkpoint tensors", expected="a name or a list of names")
    raise fault(f"this is {describe(value)}", expected="the name of a checkpoint tensor or a list of names")


def _schema(**schema: Any) -> WithJsonSchema:
    return WithJsonSchema(schema)


def _given(value: object) -> object:
    if value is None:
        raise fault("this is nothing", expected="a mapping")
    return value


# A key that is left out has a default, but a key without a value is a mistake, not a default.
GIVEN = BeforeValidator(_given)

_AS_NAME = (PlainValidator(_name), _schema(type="string", pattern=NAME))
_AS_COUNT = (PlainValidator(_count), _schema(type="integer", minimum=1, maximum=2**31 - 1))
_AS_POSITIVE = (PlainValidator(_positive), _schema(type="number", minimum=SMALLEST, maximum=LARGEST))
_AS_SIZE = (
    PlainValidator(_size),
    PlainSerializer(lambda size: None if size is None else size.text),
    _schema(
        anyOf=[{"type": "integer", "minimum": 1, "maximum": MAX_SIZE}, {"type": "string", "pattern": EXPR}]
    ),
)

Name = Annotated[str, *_AS_NAME]
OptionalName = Annotated[str | None, *_AS_NAME]
Count = Annotated[int, *_AS_COUNT]
OptionalCount = Annotated[int | None, *_AS_COUNT]
Flag = Annotated[bool, PlainValidator(_flag), _schema(type="boolean")]
Positive = Annotated[float, *_AS_POSITIVE]
OptionalPositive = Annotated[float | None, *_AS_POSITIVE]
Size = Annotated[Expr, *_AS_SIZE]
OptionalSize = Annotated[Expr | None, *_AS_SIZE]
ModelName = Annotated[
    str, PlainValidator(_model_name), _schema(type="string", pattern=MODEL_NAME, maxLength=63)
]
RangeField = Annotated[
    Range, PlainValidator(_range), _schema(type="string", pattern=r"^\s*1\s*\.\.\s*[0-9]+\s*$")
]
Text = Annotated[str, PlainValidator(_text), _schema(type="string", minLength=1)]
_SOURCE_LIST = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}
OptionalSources = Annotated[
    tuple[str, ...] | None,
    PlainValidator(_sources),
    _schema(anyOf=[{"type": "string", "minLength": 1}, _SOURCE_LIST]),
]
