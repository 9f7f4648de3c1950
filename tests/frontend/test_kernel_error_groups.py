"""Errors of a kernel's meaning that come with others: all of them, and none that only follow from another."""

from __future__ import annotations

import pytest

from tests.frontend.test_kernel_errors import MATRIX, PARTIAL, REDUCE, SHAPES, errors_of
from tests.kernels import AR_ALL, COLLECTIVES
from tests.spec.edited import KERNEL

Found = list[tuple[int, int, str, str]]
AFTER = "out: c}\noutputs"
UNREAD = "is written here, but nothing reads it and it is no output"

MANY: dict[str, tuple[str, list[tuple[str, str]], Found]] = {
    "an output that nobody writes": (
        KERNEL,
        [("outputs: [c]", "outputs: [a]")],
        [(12, 66, f"'c' {UNREAD}", ""), (13, 11, "nothing writes 'a'", "a_full or c")],
    ),
    "contraction": (
        KERNEL,
        [("b: {shape: [N, K]", "b: {shape: [K, N]")],
        [(12, 31, "matmul: 'b' is bf16 [K, N]", "bf16 [any, K], to go with 'a_full', bf16 [M, K]")],
    ),
    "dtypes of a product": (
        KERNEL,
        [("[N, K], dtype: bf16", "[N, K], dtype: f16")],
        [(12, 31, "matmul: 'b' is f16 [N, K]", "bf16 [any, K], to go with 'a_full', bf16 [M, K]")],
    ),
    "K split of one operand": (
        KERNEL,
        [("[N, K], dtype: bf16", "[N, K], dtype: bf16, shard: {axis: 1}")],
        [
            (
                12,
                31,
                "matmul: 'b' is bf16 [N, K] sharded on axis 1",
                "bf16 [any, K] not sharded on axis 1, to go with 'a_full', bf16 [M, K]",
            )
        ],
    ),
    "rows and columns that differ by rank": (
        KERNEL,
        [
            ("[N, K], dtype: bf16", "[N, K], dtype: bf16, shard: {axis: 0}"),
            ("[a_full, b]", "[a, b]"),
            ("outputs: [c]", "outputs: [c, a_full]"),
        ],
        [
            (11, 34, "all_gather does not fit: the first operand of the matmul is 'a'", "out: a"),
            (
                12,
                26,
                "matmul: 'a' has other rows on each rank and 'b' other columns",
                "one of them whole on each rank",
            ),
        ],
    ),
    "columns of each rank": (
        KERNEL,
        [("[N, K], dtype: bf16", "[N, K], dtype: bf16, shard: {axis: 0}")],
        [
            (
                9,
                3,
                "'c' is declared as bf16 [M, N], but matmul writes bf16 [M, N] sharded on axis 1",
                "shard: {axis: 1}",
            )
        ],
    ),
    "a vector for a matrix": (
        KERNEL,
        [("b: {shape: [N, K]", "b: {shape: [N]")],
        [(12, 31, "matmul: 'b' is bf16 [N]", MATRIX)],
    ),
    "a vector to gather": (
        KERNEL,
        [("a: {shape: [M, K]", "a: {shape: [M]")],
        [(11, 26, "all_gather of a vector is not there yet: 'a' is bf16 [M] sharded on axis 0", "a matrix")],
    ),
    "a vector on its second axis": (
        KERNEL,
        [
            (
                "a: {shape: [M, K], dtype: bf16, shard: {axis: 0}",
                "a: {shape: [M], dtype: bf16, shard: {axis: 1}",
            )
        ],
        [(7, 46, "'a' has one axis, so it has no axis 1", "axis: 0")],
    ),
    "all_reduce of what is whole": (
        KERNEL,
        [(AFTER, "out: c}\n  - {op: all_reduce, in: c, out: d}\noutputs"), ("[c]", "[d]")],
        [(13, 26, "all_reduce: 'c' is bf16 [M, N]", PARTIAL)],
    ),
    "all_gather of what every rank has": (
        KERNEL,
        [(", shard: {axis: 0}", "")],
        [(11, 26, "all_gather: 'a' is bf16 [M, K]", "a tensor that is sharded on axis 0")],
    ),
    "a reduction of something else": (
        REDUCE,
        [("in: c, out", "in: a, out")],
        [
            (12, 74, f"'c' {UNREAD}", ""),
            (13, 30, "reduce_scatter does not fit: it reads 'a', and the matmul writes 'c'", "in: c"),
            (13, 30, "reduce_scatter: 'a' is bf16 [M, K] sharded on axis 1", PARTIAL),
        ],
    ),
    "a gather at the end": (
        REDUCE,
        [("outputs: [d]", "  - {op: all_gather, in: d, out: e}\noutputs: [e]")],
        [(14, 10, "all_gather after the matmul does not fit", SHAPES)],
    ),
    "two reductions": (
        REDUCE,
        [("outputs: [d]", "  - {op: all_reduce, in: c, out: e}\noutputs: [d, e]")],
        [(14, 10, "another collective, all_reduce, does not fit", SHAPES)],
    ),
    "a second matmul": (
        KERNEL,
        [
            (AFTER, "out: c}\n  - {op: matmul, in: [a_full, b], transpose: [false, true], out: d}\noutputs"),
            ("[c]", "[c, d]"),
        ],
        [(13, 10, "a second matmul does not fit: a kernel has one", SHAPES)],
    ),
    "a residual that is sharded before an all_reduce": (
        AR_ALL,
        [("r: {shape: [M, N], dtype: bf16}", "r: {shape: [M, N], dtype: bf16, shard: {axis: 0}}")],
        [
            (
                13,
                75,
                "matmul: 'r' is bf16 [M, N] sharded on axis 0",
                "bf16 [M, N], as 'd', the sum to which it is added once",
            )
        ],
    ),
    "a bias and a residual that are partial": (
        REDUCE,
        [
            (
                "r: {shape: [M, N], dtype: bf16, shard: {axis: 0}}",
                "r: {shape: [M, N], dtype: bf16, partial: true}",
            ),
            ("  d: {", "  s: {shape: [N], dtype: bf16, partial: true}\n  d: {"),
            ("residual: r", "bias: s, residual: r"),
        ],
        [
            (
                13,
                62,
                "matmul: 's' is bf16 [N] partial",
                "bf16 [N], to be added once, to the sum over the ranks",
            ),
            (
                13,
                75,
                "matmul: 'r' is bf16 [M, N] partial",
                "bf16 [M, N] sharded on axis 0, as 'd', the sum to which it is added once",
            ),
        ],
    ),
    "a sum over ranks that is declared whole": (
        REDUCE,
        [("  d: {", "  c: {shape: [M, N], dtype: bf16}\n  d: {")],
        [
            (
                10,
                3,
                "'c' is declared as bf16 [M, N], but matmul writes bf16 [M, N] partial",
                "partial: true",
            ),
            (14, 30, "reduce_scatter: 'c' is bf16 [M, N]", PARTIAL),
        ],
    ),
    "silu_mul of a sum over ranks": (
        REDUCE,
        [
            ("[a, b]", "[a, b, b]"),
            ("residual: r", "activation: silu_mul"),
            (
                "r: {shape: [M, N], dtype: bf16, shard: {axis: 0}}",
                "c: {shape: [M, N], dtype: bf16, partial: true}",
            ),
        ],
        [
            (
                12,
                71,
                "silu_mul needs whole products, but 'c' is partial",
                "no activation, or a contraction that is not split",
            )
        ],
    ),
    "silu_mul of two operands": (
        KERNEL,
        [("out: c}\n", "activation: silu_mul, out: c}\n"), (", tile: [128, 256, 64], stages: 4", "")],
        [(12, 22, "a matmul with silu_mul has 2 operands", "[x, gate, up]")],
    ),
    "three operands without silu_mul": (
        KERNEL,
        [("[a_full, b]", "[a_full, b, b]")],
        [
            (
                12,
                22,
                "a matmul without an activation has 3 operands",
                "[a, b], or activation: silu_mul",
            )
        ],
    ),
    "silu_mul in a tile for one product": (
        KERNEL,
        [("[a_full, b]", "[a_full, b, b]"), ("out: c}\n", "activation: silu_mul, out: c}\n")],
        [
            (
                14,
                65,
                "two products of 128 x 256 do not fit into the registers of an SM",
                "no tile",
            ),
        ],
    ),
    "silu_mul in a smaller tile": (
        KERNEL,
        [
            ("[a_full, b]", "[a_full, b, b]"),
            ("out: c}\n", "activation: silu_mul, out: c}\n"),
            ("[128, 256, 64], stages: 4", "[128, 128, 64], stages: 5"),
        ],
        [
            (14, 65, "a tile of 128 x 128 x 64 is not there yet", "no tile"),
            (14, 89, "5 stages of 49152 bytes do not fit into the shared memory of an SM", "at most 4"),
        ],
    ),
    "all choices that cannot be": (
        KERNEL,
        [
            ("schedule: inter_sm, comm_sms: 8", "comm_sms: 0"),
            ("transfer: tma", "transfer: multimem"),
            ("[128, 256, 64], stages: 4", "[64, 256, 64], stages: 0"),
        ],
        [
            (14, 21, "0 is out of range", "an even number from 2 to 66"),
            (14, 34, "transfer: multimem is not there yet", "register or tma or copy_engine"),
            (14, 50, "a tile of 64 x 256 x 64 is not there yet", "[128, 256, 64]"),
            (14, 73, "0 is out of range", "2 to 4"),
        ],
    ),
    "SMs that only communicate beside the copy engine": (
        KERNEL,
        [("comm_sms: 8, transfer: tma", "comm_sms: 7, transfer: copy_engine")],
        [
            (14, 41, "the copy engine uses no SM, so there are no comm_sms", "no comm_sms"),
            (14, 54, "the copy engine is part of no SM", "no schedule, or register or tma"),
        ],
    ),
    "multimem of a fixed order and maybe of one rank": (
        COLLECTIVES["all_reduce"],
        [("outputs: [y]", "outputs: [y]\noverlap: {transfer: multimem}")],
        [
            (4, 8, "multimem adds what two ranks or more have, but the world may be 1", "2..8"),
            (
                12,
                21,
                "multimem adds inside the network, where additions have no fixed order (deterministic: false "
                "allows that)",
                "register",
            ),
        ],
    ),
    "nothing to communicate": (
        KERNEL,
        [
            ("  - {op: all_gather, in: a, out: a_full, axis: 0}\n", ""),
            ("[a_full, b]", "[a, b]"),
            (", shard: {axis: 0}", ""),
        ],
        [
            (13, 21, "this kernel does not communicate, so schedule has no meaning", "no schedule"),
            (13, 41, "this kernel does not communicate, so comm_sms has no meaning", "no comm_sms"),
            (13, 54, "this kernel does not communicate, so transfer has no meaning", "no transfer"),
        ],
    ),
    "read before written": (
        KERNEL,
        [("in: a, out: a_full", "in: c, out: a_full")],
        [(7, 3, "tensor 'a' is never used", ""), (11, 26, "'c' is read before it is written", "")],
    ),
    "written twice": (
        KERNEL,
        [("out: a_full", "out: c"), ("[a_full, b]", "[a, b]")],
        [
            (9, 14, "'c' is declared as bf16 [M, N], but all_gather writes bf16 [M, K]", ""),
            (11, 34, "all_gather does not fit: the first operand of the matmul is 'a'", "out: a"),
            (12, 61, "'c' is written twice (first on line 11)", "another tensor"),
        ],
    ),
    "many at once": (
        KERNEL,
        [
            ("N: 32", "N: 33, L: 2"),
            ("[N, K]", "[NN, K]"),
            ("in: a, out", "in: aa, out"),
            ("comm_sms: 8", "comm_sms: 999"),
        ],
        [
            (
                5,
                21,
                "N is 33, which makes rows that are no multiple of 16 bytes",
                "a multiple of 8 elements (16 bytes) in every row of 'c'",
            ),
            (5, 25, "dim 'L' is never used", ""),
            (8, 15, "unknown dim 'NN'", "M, N, L or K"),
            (11, 26, "unknown tensor 'aa'", ""),
            (14, 41, "999 is out of range", "an even number from 2 to 66"),
        ],
    ),
}


def rewritten(text: str, edits: list[tuple[str, str]]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(("base", "edits", "wanted"), MANY.values(), ids=MANY.keys())
def test_errors(base: str, edits: list[tuple[str, str]], wanted: Found) -> None:
    found = errors_of(rewritten(base, edits))
    assert [(d.span.line, d.span.col, d.message, d.expected) for d in found] == wanted
