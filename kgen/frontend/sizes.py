"""Dims to numbers, and the runtime limits to a `Runtime`."""

from __future__ import annotations

from kgen.diagnostics import Diagnostic, nearest, one_of
from kgen.ir.graph import AttentionDeal, Runtime, Worker
from kgen.spec.document import At
from kgen.spec.expr import Expr, ExprError
from kgen.spec.models import ModelSpec

# Axes of activations that are decided at run time.
ROWS = "rows"
BATCH = "batch"

DEFAULT_ROWS = 16
DEFAULT_WORKERS = 132  # SMs of an H200

_LIMITS = {"batch": 256, "context": 2**20, "kv_page": 1024, "rows": 1024, "workers": 1024}
_PAGE_STEP = 8  # attention reads keys and values of this many tokens at a time


class Dims:
    """The dims of a spec. A dim that has an error is known by name but has no value."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.names = [*spec.dims, *sorted(spec.gaps.dims)]
        self.values: dict[str, int] = {}
        self.diagnostics: list[Diagnostic] = []
        for name in spec.dims:
            if name in (ROWS, BATCH):
                message = f"'{name}' is the name of an axis that is decided at run time"
                self.diagnostics.append(Diagnostic(spec.key_span(("dims", name)), message, "another name"))
        self._resolve()

    def evaluate(self, expr: Expr, at: At) -> int | None:
        """The value of a size written at `at`; None once an error is recorded."""
        if any(name in self.names and name not in self.values for name in expr.names):
            return None  # what is wrong is said where that dim is defined
        try:
            return expr.evaluate(self.values)
        except ExprError as error:
            span = self.spec.document.within(at, error.start, error.end)
            expected = one_of(self.names) if error.name else ""
            hint = nearest(error.name, self.names) if error.name else ""
            self.diagnostics.append(Diagnostic(span, str(error), expected, hint))
            return None

    def _resolve(self) -> None:
        """Evaluate each dim after those it reads; what is left over in the end reads itself."""
        waiting = dict(self.spec.dims)
        while waiting:
            ready = [name for name, expr in waiting.items() if waiting.keys().isdisjoint(expr.names)]
            if not ready:
                break
            for name in ready:
                value = self.evaluate(waiting[name], ("dims", name))
                if value is not None:
                    self.values[name] = value
            for name in ready:
                del waiting[name]
        for name in waiting:
            span = self.spec.span("dims", name)
            self.diagnostics.append(Diagnostic(span, f"dim '{name}' depends on itself"))


def resolve_runtime(
    spec: ModelSpec, batch: int | None, workers: int | None
) -> tuple[Runtime, list[Diagnostic]]:
    """The limits of the generated library and their errors. `batch` and `workers` replace the spec's."""
    written = spec.runtime
    errors: list[Diagnostic] = []

    def error(field: str, message: str, expected: str) -> None:
        at = ("runtime", field)
        span = spec.span(*at) if at in spec.document.values else spec.key_span(("runtime",))
        errors.append(Diagnostic(span, f"runtime.{field}: {message}", expected))

    if batch is not None and not 1 <= batch <= written.batch.last:
        error("batch", f"a batch of {batch} was asked for", f"a batch in {written.batch}")
        batch = None
    chosen_batch = written.batch.last if batch is None else batch
    rows = written.rows if written.rows is not None else max(chosen_batch, DEFAULT_ROWS)
    chosen = {
        "batch": chosen_batch,
        "context": written.context.last,
        "kv_page": written.kv_page,
        "rows": rows,
        "workers": workers if workers is not None else written.workers or DEFAULT_WORKERS,
    }
    for field, value in chosen.items():
        if not 1 <= value <= _LIMITS[field]:
            error(field, f"{value} is out of range", f"1 to {_LIMITS[field]}")
        elif field == "kv_page" and value % _PAGE_STEP:
            error(field, f"{value} is not a multiple of {_PAGE_STEP}", f"a multiple of {_PAGE_STEP}")
    if rows < chosen_batch:
        error(
            "rows", f"a step of {rows} rows cannot hold a batch of {chosen_batch}", f"at least {chosen_batch}"
        )
    runtime = Runtime(
        **chosen,
        worker=Worker(written.worker),
        pipelining=written.pipelining,
        attention=AttentionDeal(written.attention),
    )
    return runtime, errors
