"""A spec file to a validated ModelSpec or KernelSpec."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kgen.diagnostics import Diagnostic, Span, SpecError
from kgen.spec.document import Document, parse_document, read_text
from kgen.spec.kernel import KernelSpec
from kgen.spec.language import KERNEL, MODEL, Language, Spec, is_kernel
from kgen.spec.models import ModelSpec
from kgen.spec.problems import place, problem
from kgen.spec.salvage import salvage

_WRITTEN_OUT = ("dims", "tensors", "graph")


@dataclass(frozen=True, slots=True)
class Draft:
    """A spec that may have errors. `spec` is what is right of it, if that is enough to say more about."""

    spec: ModelSpec | KernelSpec | None
    errors: list[Diagnostic]


def load_spec(path: Path) -> ModelSpec:
    """The model's spec in a file. SpecError has every error of structure; `build_graph` checks the rest."""
    return _whole(load_draft(path), ModelSpec)


def parse_spec(text: str, file: str = "<spec>") -> ModelSpec:
    """The model's spec in a text; `file` names it in errors, and paths in it are relative to that file."""
    return _whole(parse_draft(text, file), ModelSpec)


def load_kernel_spec(path: Path) -> KernelSpec:
    """The kernel's spec in a file. SpecError has every error of structure; `build_kernel` checks the rest."""
    return _whole(load_draft(path), KernelSpec)


def parse_kernel_spec(text: str, file: str = "<spec>") -> KernelSpec:
    """The kernel's spec in a text; `file` names it in errors."""
    return _whole(parse_draft(text, file), KernelSpec)


def load_draft(path: Path) -> Draft:
    """The spec in a file with its errors. SpecError when the file cannot be read as YAML."""
    return parse_draft(read_text(path), str(path))


def parse_draft(text: str, file: str) -> Draft:
    """The spec in a text with its errors. SpecError when it is not YAML."""
    document, errors = parse_document(text, file)
    if not isinstance(document.data, dict):
        expected = "kgen: 1, kind: model, name: ..., ..."
        return Draft(None, [*errors, Diagnostic(document.value(()), "a spec is a mapping", expected)])
    if is_kernel(document.data):
        kernel, wrong = _validate(document, KERNEL)
        return Draft(kernel, errors + wrong)
    missing = _either_or(document)
    spec, more = _validate(document, MODEL)
    errors += missing + more
    config = None
    if spec and spec.origin:
        try:
            config = _config(spec.origin.hf_config, document)
        except SpecError as error:
            return Draft(None, errors + error.diagnostics)
    if spec and not missing:
        return Draft(spec.with_config(config), errors)
    return Draft(None, errors)


def _whole(draft: Draft, wanted: type[Spec]) -> Spec:
    """The spec of a draft without errors, which must be of this kind."""
    if draft.errors or draft.spec is None:
        raise SpecError(draft.errors)
    if not isinstance(draft.spec, wanted):
        kind = "model" if wanted is ModelSpec else "kernel"
        raise SpecError.single(draft.spec.span("kind"), f"this is a {draft.spec.kind}", expected=f"a {kind}")
    return draft.spec


def _validate(document: Document, language: Language[Spec]) -> tuple[Spec | None, list[Diagnostic]]:
    """The spec in a document and every way in which the document is not one."""
    try:
        return language.spec.model_validate(document.data).attach(document), []
    except ValidationError as error:
        details = error.errors()
    wrong = [(place(detail["loc"], document.data), detail["type"]) for detail in details]
    # A scalar that could not be read has had its error already.
    errors = [
        problem(detail, document, language)
        for detail, (path, _) in zip(details, wrong, strict=True)
        if path not in document.unread
    ]
    rest = salvage(document, wrong, language.stand_ins)
    if rest is None:
        return None, errors
    try:
        return language.spec.model_validate(rest[0].data).attach(*rest), errors
    except ValidationError:
        return None, errors


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
    if path.is_dir():
        path /= "config.json"
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
