"""A spec file to its graph in one go, with the errors of every stage together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kgen.diagnostics import SpecError
from kgen.frontend.build import build_graph, find_errors
from kgen.frontend.kernel.build import build_kernel, find_kernel_errors
from kgen.ir.graph import Graph
from kgen.ir.kernel.graph import KernelGraph
from kgen.spec.kernel import KernelSpec
from kgen.spec.load import load_draft
from kgen.spec.models import ModelSpec


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model's spec and its graph."""

    spec: ModelSpec
    graph: Graph


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel's spec and its graph."""

    spec: KernelSpec
    graph: KernelGraph


Loaded = LoadedModel | LoadedKernel


def load_any(path: Path, *, batch: int | None = None, workers: int | None = None) -> Loaded:
    """The spec in a file and its graph, of either kind. SpecError holds every error of structure and meaning.

    Where a part has the wrong structure, the rest is checked as if that part could mean anything. `batch` and
    `workers` are for models.
    """
    draft = load_draft(path)
    spec = draft.spec
    if spec is None:
        raise SpecError(draft.errors)
    if isinstance(spec, KernelSpec):
        if draft.errors:
            raise SpecError(draft.errors + find_kernel_errors(spec))
        return LoadedKernel(spec, build_kernel(spec))
    if draft.errors:
        raise SpecError(draft.errors + find_errors(spec, batch=batch, workers=workers))
    return LoadedModel(spec, build_graph(spec, batch=batch, workers=workers))


def load_graph(
    path: Path, *, batch: int | None = None, workers: int | None = None
) -> tuple[ModelSpec, Graph]:
    """The model's spec in a file and its graph, as `load_any`."""
    loaded = load_any(path, batch=batch, workers=workers)
    if not isinstance(loaded, LoadedModel):
        raise SpecError.single(loaded.spec.span("kind"), "this is a kernel", expected="a model")
    return loaded.spec, loaded.graph


def load_kernel(path: Path) -> tuple[KernelSpec, KernelGraph]:
    """The kernel's spec in a file and its graph, as `load_any`."""
    loaded = load_any(path)
    if not isinstance(loaded, LoadedKernel):
        raise SpecError.single(loaded.spec.span("kind"), "this is a model", expected="a kernel")
    return loaded.spec, loaded.graph
