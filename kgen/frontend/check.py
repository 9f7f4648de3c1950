"""A spec file to its graph in one go, with the errors of every stage together."""

from __future__ import annotations

from pathlib import Path

from kgen.diagnostics import SpecError
from kgen.frontend.build import build_graph, find_errors
from kgen.ir.graph import Graph
from kgen.spec.load import load_draft
from kgen.spec.models import ModelSpec


def load_graph(
    path: Path, *, batch: int | None = None, workers: int | None = None
) -> tuple[ModelSpec, Graph]:
    """The spec in a file and its graph. SpecError holds every error of structure and meaning.

    Where a part has the wrong structure, the rest is checked as if that part could mean anything.
    """
    draft = load_draft(path)
    if draft.spec is None:
        raise SpecError(draft.errors)
    if draft.errors:
        raise SpecError(draft.errors + find_errors(draft.spec, batch=batch, workers=workers))
    return draft.spec, build_graph(draft.spec, batch=batch, workers=workers)
