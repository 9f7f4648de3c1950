"""Kernels for tests: shipped ones, and small ones written here."""

from __future__ import annotations

from pathlib import Path

from kgen.frontend.kernel.build import build_kernel
from kgen.ir.kernel.graph import KernelGraph
from kgen.spec.load import parse_kernel_spec

SPECS = Path(__file__).parents[1] / "specs" / "kernels"
GEMM = """\
kgen: 1
kind: kernel
name: small
world: 1..8
dims: {M: 1..64, N: 24, K: 16}
tensors:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [N, K], dtype: bf16}
  c: {shape: [M, N], dtype: bf16}
graph:
  - {op: matmul, in: [a, b], transpose: [false, true], out: c}
outputs: [c]
"""
GATHER = "  - {op: all_gather, in: a, out: a_full, axis: 0}\n"
AG = GEMM.replace("a: {shape: [M, K], dtype: bf16}", "a: {shape: [M, K], dtype: bf16, shard: {axis: 0}}")
AG = AG.replace("graph:\n", f"graph:\n{GATHER}").replace("[a, b]", "[a_full, b]")
AG_SILU = AG.replace("[a_full, b]", "[a_full, b, u]").replace("out: c}", "activation: silu_mul, out: c}")
AG_SILU = AG_SILU.replace("  c: {", "  u: {shape: [N, K], dtype: bf16}\n  c: {")
AG_ALL = AG.replace("true], out", "true], bias: s, residual: r, out")
AG_ALL = AG_ALL.replace("  c: {", "  s: {shape: [N], dtype: bf16}\n  r: {shape: [M, N], dtype: bf16}\n  c: {")
RS = GEMM.replace("K], dtype: bf16}", "K], dtype: bf16, shard: {axis: 1}}").replace("K: 16", "K: 48")
RS = RS.replace("  c: {shape: [M, N], dtype: bf16}", "  d: {shape: [M, N], dtype: bf16, shard: {axis: 0}}")
RS = RS.replace("[c]", "[d]").replace("outputs", "  - {op: reduce_scatter, in: c, out: d, axis: 0}\noutputs")
AR = RS.replace("reduce_scatter, in: c, out: d, axis: 0", "all_reduce, in: c, out: d")
AR = AR.replace("  d: {shape: [M, N], dtype: bf16, shard: {axis: 0}}", "  d: {shape: [M, N], dtype: bf16}")
# With a bias and a residual, which are added to the sum.
_BIAS = "  s: {shape: [N], dtype: bf16}\n"
AR_ALL = AR.replace("true], out", "true], bias: s, residual: r, out")
AR_ALL = AR_ALL.replace("  d: {", f"{_BIAS}  r: {{shape: [M, N], dtype: bf16}}\n  d: {{")
RS_ALL = RS.replace("true], out", "true], bias: s, residual: r, out")
RS_ALL = RS_ALL.replace("  d: {", f"{_BIAS}  r: {{shape: [M, N], dtype: bf16, shard: {{axis: 0}}}}\n  d: {{")
SMALL = {"gemm": GEMM, "ag": AG, "ag_silu": AG_SILU, "ag_all": AG_ALL, "rs": RS, "ar": AR}
ADDED = {"rs_all": RS_ALL, "ar_all": AR_ALL}
AG_KEEP = AG_ALL.replace("outputs: [c]", "outputs: [c, a_full]")  # with the gathered rows as an output

COLLECTIVE = """\
kgen: 1
kind: kernel
name: small
world: 1..8
dims: {M: 1..64, N: 48}
tensors:
  x: {shape: [M, N], dtype: bf16, IN}
  y: {shape: [M, N], dtype: bf16, OUT}
graph:
  - {op: OP, in: x, out: y}
outputs: [y]
"""


def collective(op: str, given: str, got: str) -> str:
    """The spec of one: what goes with its operator, and how ranks hold its input and its output."""
    text = COLLECTIVE.replace("OP", op).replace("IN}", f"{given}}}").replace("OUT}", f"{got}}}")
    return text.replace(", }", "}")


_ROWS, _COLUMNS = "shard: {axis: 0}", "shard: {axis: 1}"
COLLECTIVES = {
    "gather": collective("all_gather", _ROWS, ""),
    "scatter": collective("reduce_scatter", "partial: true", _ROWS),
    "all_reduce": collective("all_reduce", "partial: true", ""),
    "to_columns": collective("all_to_all, split: 1, concat: 0", _ROWS, _COLUMNS),
    "to_rows": collective("all_to_all, split: 0, concat: 1", _COLUMNS, _ROWS),
}
IN_NETWORK = COLLECTIVES["all_reduce"].replace("1..8", "2..8")  # never run on a GPU
IN_NETWORK += "deterministic: false\noverlap: {transfer: multimem}\n"


def shipped(name: str) -> KernelGraph:
    """A kernel that comes with kgen."""
    return kernel((SPECS / f"{name}.yaml").read_text())


def kernel(text: str) -> KernelGraph:
    """The graph of a kernel's spec."""
    return build_kernel(parse_kernel_spec(text, "spec.yaml"))
