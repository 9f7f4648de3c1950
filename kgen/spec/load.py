"""A spec file to a validated ModelSpec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kgen.diagnostics import Diagnostic, Span, SpecError
from kgen.spec.document import Document, parse_document, read_text
from kgen.spec.models import ModelSpec
from kgen.spec.problems import problem

_WRITTEN_OUT = ("dims", "tensors", "graph")


def load_spec(path: Path) -> ModelSpec:
    """The spec in a file. SpecError holds every error found."""
    return parse_spec(read_text(path), str(path))


def parse_spec(text: str, file: str = "<spec>") -> ModelSpec:
    """The spec in a text; `file` names it in errors, and paths in it are relative to that file."""
    document, errors = parse_document(text, file)
    spec, more = validate(document)
    errors += more
    config = None
    if spec and spec.origin and not errors:
        config = _config(spec.origin.hf_config, document)
    if errors or spec is None:
        raise SpecError(errors)
    return spec.attach(document, config)


def validate(document: Document) -> tuple[ModelSpec | None, list[Diagnostic]]:
    """The spec in a document, or every way in which the document is not one."""
    if not isinstance(document.data, dict):
        span = document.value(())
        return None, [Diagnostic(span, "a spec is a mapping", "kgen: 1, kind: model, name: ..., ...")]
    if document.data.get("kgen") == 1 and document.data.get("kind") == "kernel":
        # The keys of kernels differ, so one clear message is all that can be said.
        return None, [Diagnostic(document.value(("kind",)), "kernels cannot be compiled yet", "kind: model")]
    errors = _either_or(document)
    try:
        return ModelSpec.model_validate(document.data), errors
    except ValidationError as error:
        return None, errors + [problem(detail, document) for detail in error.errors()]


def _either_or(document: Document) -> list[Diagnostic]:
    """A spec is written out or comes from elsewhere, not both."""
    data: dict[str, Any] = document.data
    if "from" in data:
        return [
            Diagnostic(document.key((key,)), f"'{key}' is given together with 'from'", "one or the other")
            for key in _WRITTEN_OUT
            if key in data
        ]
    start = document.value(())
    return [Diagnostic(start, f"the spec needs '{key}'") for key in _WRITTEN_OUT if key not in data]


def _config(source: str | dict[str, Any], document: Document) -> Document:
    if isinstance(source, dict):
        prefix = ("from", "hf_config")
        return Document(
            document.file,
            source,
            {at[2:]: span for at, span in document.values.items() if at[:2] == prefix},
            {at[2:]: span for at, span in document.keys.items() if at[:2] == prefix},
        )
    path = Path(document.file).parent / source
    try:
        text = read_text(path)
    except SpecError as error:
        where = document.value(("from", "hf_config"))
        raise SpecError(
            [Diagnostic(where, f"{d.span}: {d.message}", d.expected) for d in error.diagnostics]
        ) from error
    return _json_document(text, str(path))


def _json_document(text: str, file: str) -> Document:
    """JSON read with places: once checked to be JSON it is read as the YAML that it also is."""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        line, col = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (1, 1)
        source = (text.splitlines() or [""])[min(line, len(text.splitlines())) - 1] if text else ""
        raise SpecError.single(Span(file, line, col, col + 1, source), f"not JSON: {error}") from error
    document, errors = parse_document(text.replace("\t", " "), file)
    if not isinstance(document.data, dict):
        errors.append(Diagnostic(document.value(()), "a config is a JSON object"))
    if errors:
        raise SpecError(errors)
    return document
