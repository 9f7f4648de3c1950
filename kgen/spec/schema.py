"""The JSON Schema (draft 7) of a spec file, for editors, made from the models that read it."""

from __future__ import annotations

from typing import Any

from kgen.spec.kernel import KernelSpec, OverlapSpec
from kgen.spec.kernel_ops import KERNEL_OPERATORS
from kgen.spec.models import ModelSpec
from kgen.spec.ops import OPERATORS, Node, RepeatSpec
from kgen.spec.placed import KINDS

_REF = "#/$defs/"
_OPERATOR = "Operator"
_KERNEL_OPERATOR = "KernelOperator"


def json_schema() -> dict[str, Any]:
    """The schema as plain data. Which kind a spec is decides what else is in it."""
    definitions: dict[str, Any] = {}
    kinds = {ModelSpec: _model(definitions), KernelSpec: _kernel(definitions)}
    for spec, schema in kinds.items():
        schema["properties"]["kind"] = {}  # said once for both
        definitions[spec.__name__] = schema
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "kgen spec",
        "type": "object",
        "properties": {"kind": {"enum": list(KINDS)}},
        "if": {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "kernel"}}},
        "then": _ref(KernelSpec.__name__),
        "else": _ref(ModelSpec.__name__),
        "definitions": definitions,
    }


def _model(definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a model; what it refers to is added to the definitions."""
    schema: dict[str, Any] = _draft7(ModelSpec.model_json_schema(by_alias=True))
    definitions |= schema.pop("definitions")
    definitions[_OPERATOR] = _operator(OPERATORS)
    definitions[RepeatSpec.__name__]["properties"]["do"]["items"] = _ref(_OPERATOR)
    schema["properties"]["graph"]["items"] = _graph_item()
    written_out = ["dims", "tensors", "graph"]
    return {
        **schema,
        "if": {"required": ["from"]},
        "then": {"properties": dict.fromkeys(written_out, False)},
        "else": {"required": written_out},
    }


def _kernel(definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a kernel; what it refers to is added to the definitions."""
    schema: dict[str, Any] = _draft7(KernelSpec.model_json_schema(by_alias=True))
    definitions |= schema.pop("definitions")
    definitions[_KERNEL_OPERATOR] = _operator(KERNEL_OPERATORS)
    schema["properties"]["graph"]["items"] = _ref(_KERNEL_OPERATOR)
    schema["properties"]["overlap"] = {
        "if": {"type": "string"},
        "then": {"const": "auto"},
        "else": _ref(OverlapSpec.__name__),
    }
    return schema


def _operator(operators: dict[str, type[Node]]) -> dict[str, Any]:
    """Any operator. What is wrong with one is said of its own keys, which a bare oneOf could not do."""
    return {
        "type": "object",
        "required": ["op"],
        "properties": {"op": {"enum": list(operators)}},
        "allOf": [
            {"if": {"required": ["op"], "properties": {"op": {"const": name}}}, "then": _ref(model.__name__)}
            for name, model in operators.items()
        ],
    }


def _graph_item() -> dict[str, Any]:
    """An operator, or a repeat: what has `repeat` or `do` and no `op`."""
    keys = [{"required": [key]} for key in RepeatSpec.model_fields]
    return {
        "if": {"type": "object", "anyOf": keys, "not": {"required": ["op"]}},
        "then": _ref(RepeatSpec.__name__),
        "else": _ref(_OPERATOR),
    }


def _ref(definition: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{definition}"}


def _draft7(node: Any) -> Any:
    """Pydantic writes draft 2020-12; of what it uses, draft 7 differs in where definitions live."""
    if isinstance(node, list):
        return [_draft7(item) for item in node]
    if not isinstance(node, dict):
        return node
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("title", "discriminator") and not (key == "title" and isinstance(value, dict)):
            continue  # titles repeat the key; the discriminator is OpenAPI's
        if key == "default" and value is None:
            continue  # leaving a key out is not the same as null
        if key == "$ref":
            value = value.replace(_REF, "#/definitions/")
        result["definitions" if key == "$defs" else key] = _draft7(value)
    if "patternProperties" in result:
        result["additionalProperties"] = False
    options = result.get("anyOf", [])
    if {"type": "null"} in options:
        rest = [option for option in options if option != {"type": "null"}]
        del result["anyOf"]
        # In draft 7 whatever stands next to $ref is ignored, so it is wrapped.
        result |= {"allOf": rest} if len(rest) == 1 else {"anyOf": rest}
    return result
