"""An expanded kernel gives the same graph; whatever is done to a spec, the answer has proper places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.diagnostics import Diagnostic, SpecError
from kgen.frontend.kernel.build import build_kernel, find_kernel_errors
from kgen.frontend.kernel.expand import expand_kernel
from kgen.ir.kernel.graph import KernelGraph
from kgen.spec.kernel import KernelSpec
from kgen.spec.load import load_kernel_spec, parse_draft, parse_kernel_spec
from tests.frontend.test_fuzz import apply, check_place, core_yaml, plain, relaxed
from tests.frontend.test_kernel_errors import EXCHANGE, REDUCE
from tests.spec.edited import KERNEL

SPECS = sorted((Path(__file__).parents[2] / "specs/kernels").glob("*.yaml"))
BASES = [KERNEL, REDUCE, EXCHANGE]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.floats(),
    st.sampled_from(["a", "c", "M", "K", "1..4", "matmul", "all_reduce", "bf16", "auto", "tma"]),
    st.lists(st.sampled_from(["a", "M", 3, True]), max_size=4),
    st.dictionaries(st.sampled_from(["op", "in", "out", "axis", "tile"]), st.just("x"), max_size=3),
)
EDITS = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from(["set", "delete", "copy", "add"]), VALUES),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_shipped_kernels(path: Path) -> None:
    spec = load_kernel_spec(path)
    text = expand_kernel(spec)
    assert build_kernel(parse_kernel_spec(text)) == build_kernel(spec)
    assert expand_kernel(parse_kernel_spec(text)) == text


def test_everything_is_written_down() -> None:
    text = REDUCE.replace(", axis: 0}\noutputs", "}\noutputs").replace("overlap: {comm_sms: 8}\n", "")
    assert (
        expand_kernel(parse_kernel_spec(text))
        == """\
kgen: 1
kind: kernel
name: small
world: 2..8

dims:
  M: 1..64
  N: 32
  K: 64

tensors:
  a: {shape: [M, K], dtype: bf16, shard: {axis: 1}}
  b: {shape: [N, K], dtype: bf16, shard: {axis: 1}}
  r: {shape: [M, N], dtype: bf16, shard: {axis: 0}}
  d: {shape: [M, N], dtype: bf16, shard: {axis: 0}}
  c: {shape: [M, N], dtype: bf16, partial: true}

graph:
  - {op: matmul, in: [a, b], transpose: [false, true], residual: r, out: c}
  - {op: reduce_scatter, in: c, axis: 0, out: d}

outputs:
  - d
deterministic: true
overlap: auto
"""
    )


def test_choices_are_kept() -> None:
    spec = parse_kernel_spec(KERNEL)
    expanded = parse_kernel_spec(expand_kernel(spec))
    assert expanded.overlap == spec.overlap
    assert build_kernel(expanded) == build_kernel(spec)


def checked(text: str) -> KernelGraph | None:
    """The graph of a text, or None for errors, which have proper places. Nothing else may be raised."""
    errors: list[Diagnostic] = []
    graph: KernelGraph | None = None
    try:
        draft = parse_draft(text, "spec.yaml")
        errors += draft.errors
        if isinstance(draft.spec, KernelSpec) and draft.errors:
            errors += find_kernel_errors(draft.spec)
        elif isinstance(draft.spec, KernelSpec):
            graph = build_kernel(draft.spec)
    except SpecError as error:
        errors += error.diagnostics
        assert error.diagnostics  # noqa: PT017 - an error that is caught here is the expected outcome
    for diagnostic in errors:
        check_place(diagnostic, text.splitlines())
    return None if errors else graph


@relaxed
@given(st.sampled_from(BASES), EDITS)
def test_mutated_kernels(base: str, edits: list[tuple[int, str, Any]]) -> None:
    text = core_yaml(apply(plain(base), edits))
    graph = checked(text)
    if graph is not None:
        assert graph.check() == []
        assert graph.worlds
        assert build_kernel(parse_kernel_spec(expand_kernel(parse_kernel_spec(text)))) == graph


@relaxed
@given(
    st.integers(0, len(KERNEL)),
    st.integers(0, 12),
    st.text(alphabet="\n\t :-[]{}&*!|>'\"#%@,x1é\x07", max_size=6),
)
def test_mutated_text(start: int, length: int, inserted: str) -> None:
    checked(KERNEL[:start] + inserted + KERNEL[start + length :])
