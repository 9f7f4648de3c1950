"""From what the user typed to a spec, a graph or a compilation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgen.cli.output import UsageError
from kgen.paths import shipped_spec, shipped_specs

if TYPE_CHECKING:
    from kgen.frontend.check import Loaded
    from kgen.passes.kernel.pipeline import KernelCompilation
    from kgen.passes.pipeline import Compilation

SpecArgument = Annotated[
    str, typer.Argument(metavar="SPEC", help="A YAML file, or the name of a spec that comes with kgen.")
]
BatchOption = Annotated[
    int | None,
    typer.Option("--batch", min=1, help="Sequences decoded at once [default: the largest of the spec]."),
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", "--sms", min=1, help="SMs to plan for [default: the spec's].")
]


def spec_path(spec: str) -> Path:
    """The file that `spec` means: a path that exists comes before a shipped name."""
    path = Path(spec)
    if path.is_dir():
        raise UsageError(f"{spec} is a folder; a spec is a YAML file")
    if path.exists():
        return path
    shipped = shipped_spec(spec)
    if shipped is None:
        raise UsageError(_unknown(spec))
    return shipped


def compile_spec(
    spec: str, *, batch: int | None = None, workers: int | None = None
) -> Compilation | KernelCompilation:
    """Load, build and compile. Raises SpecError, whatever stage it is that finds a fault.

    `batch` and `workers` are for models.
    """
    from kgen.frontend.check import load_any

    return compile_loaded(load_any(spec_path(spec), batch=batch, workers=workers))


def compile_model(spec: str, *, batch: int | None = None, workers: int | None = None) -> Compilation:
    """The same for what only models have; raises UsageError for a kernel."""
    from kgen.passes.pipeline import Compilation

    compilation = compile_spec(spec, batch=batch, workers=workers)
    if not isinstance(compilation, Compilation):
        raise UsageError(f"{spec} is a kernel, and this is for models")
    return compilation


def compile_loaded(loaded: Loaded) -> Compilation | KernelCompilation:
    """Compile what is loaded. Raises SpecError for what a pass refuses."""
    from kgen.frontend.check import LoadedKernel
    from kgen.frontend.kernel.locate import located_kernel
    from kgen.frontend.locate import located
    from kgen.passes.errors import CompileError
    from kgen.passes.kernel.pipeline import compile_kernel
    from kgen.passes.pipeline import compile_graph

    if isinstance(loaded, LoadedKernel):
        try:
            return compile_kernel(loaded.graph)
        except CompileError as error:
            raise located_kernel(loaded.spec, loaded.graph, error.problems) from error
    try:
        return compile_graph(loaded.graph)
    except CompileError as error:
        raise located(loaded.spec, error.problems) from error


def _unknown(spec: str) -> str:
    from kgen.diagnostics import nearest

    guess = nearest(spec.removesuffix(".yaml").rpartition("/")[2], (name for name, _ in shipped_specs()))
    hint = f"did you mean '{guess}'?" if guess else "`kgen list` shows the specs that come with kgen."
    return f"there is no file {spec}, and no spec of that name comes with kgen; {hint}"
