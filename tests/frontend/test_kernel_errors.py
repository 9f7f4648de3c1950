"""Each way in which the meaning of a kernel's spec can be wrong, with the exact place of its error."""

from __future__ import annotations

import pytest

from kgen.diagnostics import Diagnostic, SpecError
from kgen.frontend.kernel.build import build_kernel
from kgen.spec.load import parse_kernel_spec
from tests.kernels import IN_NETWORK
from tests.spec.edited import KERNEL, assert_only, edited

GATHER = "{op: all_gather, in: a, out: a_full, axis: 0}"
MATMUL = "{op: matmul, in: [a_full, b], transpose: [false, true], out: c}"
SHAPES = "one collective, or [all_gather,] matmul [, reduce_scatter or all_reduce]"
PARTIAL = "a partial tensor: one declared with partial: true, or a product over an axis that is sharded"
MATRIX = "a bf16 or f16 matrix that is not partial"

REDUCE = """\
kgen: 1
kind: kernel
name: small
world: 2..8
dims: {M: 1..64, N: 32, K: 64}
tensors:
  a: {shape: [M, K], dtype: bf16, shard: {axis: 1}}
  b: {shape: [N, K], dtype: bf16, shard: {axis: 1}}
  r: {shape: [M, N], dtype: bf16, shard: {axis: 0}}
  d: {shape: [M, N], dtype: bf16, shard: {axis: 0}}
graph:
  - {op: matmul, in: [a, b], transpose: [false, true], residual: r, out: c}
  - {op: reduce_scatter, in: c, out: d, axis: 0}
outputs: [d]
overlap: {comm_sms: 8}
"""
EXCHANGE = """\
kgen: 1
kind: kernel
name: small
world: 4
dims: {M: 1..64, N: 32}
tensors:
  x: {shape: [M, N], dtype: bf16, shard: {axis: 0}}
  y: {shape: [M, N], dtype: bf16, shard: {axis: 1}}
graph:
  - {op: all_to_all, in: x, split: 1, concat: 0, out: y}
outputs: [y]
overlap: {transfer: register}
"""


def errors_of(text: str) -> list[Diagnostic]:
    with pytest.raises(SpecError) as caught:
        build_kernel(parse_kernel_spec(text, "spec.yaml"))
    return caught.value.diagnostics


CASES = {
    "unknown operand": ("in: a, out", "in: «aa», out", "unknown tensor 'aa' | | a"),
    "unknown operand that was nearly written": (
        "[a_full, b]",
        "[«a_ful», b]",
        "unknown tensor 'a_ful' | | a_full",
    ),
    "unknown tensor without a near one": (
        "out: c}",
        "residual: «zzz», out: c}",
        "unknown tensor 'zzz' | a, a_full, b or c",
    ),
    "unknown output": ("outputs: [c]", "outputs: [«cc»]", "unknown tensor 'cc' | | c"),
    "unknown dim": ("a: {shape: [M, K]", "a: {shape: [M, «KK»]", "unknown dim 'KK' | M, N or K | K"),
    "unused dim": ("K: 64}", "K: 64, «L»: 3}", "dim 'L' is never used"),
    "unused tensor": (
        "graph:",
        "  «z»: {shape: [M, N], dtype: bf16}\ngraph:",
        "tensor 'z' is never used",
    ),
    "sharded and partial": (
        "shard: {axis: 0}",
        "shard: {axis: 0}, partial: «true»",
        "'a' cannot be sharded and partial: a rank has a block of it, or a summand "
        "| shard or partial, not both",
    ),
    "all_gather on axis 1": (
        "axis: 0}\n  - ",
        "axis: «1»}\n  - ",
        "all_gather on axis 1 is not there yet | axis: 0",
    ),
    "no transpose": (
        MATMUL,
        "«{op: matmul, in: [a_full, b], out: c}»",
        "a matmul with transpose: [false, false] is not there yet "
        "| transpose: [false, true], with the weights stored as [N, K]",
    ),
    "both transposed": (
        "[false, true]",
        "«[true, true]»",
        "a matmul with transpose: [true, true] is not there yet "
        "| transpose: [false, true], with the weights stored as [N, K]",
    ),
    "declared shape of a result": (
        "c: {shape: [M, N]",
        "c: {shape: «[N, M]»",
        "'c' is declared as bf16 [N, M], but matmul writes bf16 [M, N]",
    ),
    "declared dtype of a result": (
        "[M, N], dtype: bf16",
        "[M, N], dtype: «f16»",
        "'c' is declared as f16 [M, N], but matmul writes bf16 [M, N] | dtype: bf16",
    ),
    "declared shard of a result": (
        "[M, N], dtype: bf16",
        "[M, N], dtype: bf16, shard: «{axis: 0}»",
        "'c' is declared as bf16 [M, N] sharded on axis 0, but matmul writes bf16 [M, N] | no shard",
    ),
    "a partial output": (
        "[M, N], dtype: bf16}\ngraph:\n  - {op: all_gather, in: a, out: a_full, axis: 0}\n"
        f"  - {MATMUL}\noutputs: [c]",
        "[M, N], dtype: bf16, partial: true}\ngraph:\n  - {op: all_gather, in: a, out: a_full, axis: 0}\n"
        f"  - {MATMUL}\noutputs: [«c»]",
        "'c' is partial: every rank has a summand of it, and nothing adds them up "
        "| the output of a reduce_scatter or an all_reduce",
    ),
    "an output twice": ("outputs: [c]", "outputs: [c, «c»]", "'c' is already an output"),
    "operator writes what it reads": (
        "out: c}",
        "residual: c, out: «c»}",
        "matmul cannot write 'c', which it reads | another tensor",
    ),
    "rows of K": (
        "K: 64}",
        "K: «60»}",
        "K is 60, which makes rows that are no multiple of 16 bytes "
        "| a multiple of 8 elements (16 bytes) in every row of 'a'",
    ),
    "rows of a range of K": (
        "K: 64}",
        "K: «60..63»}",
        "K is 60..63, which makes rows that are no multiple of 16 bytes "
        "| a multiple of 8 elements (16 bytes) in every row of 'a'",
    ),
    "too many SMs": (
        "comm_sms: 8",
        "comm_sms: «68»",
        "68 is out of range | an even number from 2 to 66",
    ),
    "no SMs": ("comm_sms: 8", "comm_sms: «0»", "0 is out of range | an even number from 2 to 66"),
    "fewer SMs than none": (
        "comm_sms: 8",
        "comm_sms: «-2»",
        "-2 is out of range | an even number from 2 to 66",
    ),
    "half a cluster of SMs": (
        "comm_sms: 8",
        "comm_sms: «7»",
        "7 is odd, but SMs communicate in clusters of two | an even number from 2 to 66",
    ),
    "SMs of intra_sm": (
        "inter_sm, comm_sms: 8",
        "intra_sm, comm_sms: «8»",
        "with intra_sm the SMs that compute communicate too, so there are no comm_sms | no comm_sms",
    ),
    "SMs of the copy engine": (
        "schedule: inter_sm, comm_sms: 8, transfer: tma",
        "comm_sms: «8», transfer: copy_engine",
        "the copy engine uses no SM, so there are no comm_sms | no comm_sms",
    ),
    "copy engine of SMs that communicate": (
        "comm_sms: 8, transfer: tma",
        "transfer: «copy_engine»",
        "the copy engine is part of no SM | no schedule, or register or tma",
    ),
    "multimem for rows": (
        "transfer: tma",
        "transfer: «multimem»",
        "transfer: multimem is not there yet | register or tma or copy_engine",
    ),
    "copy engine of an SM": (
        "inter_sm, comm_sms: 8, transfer: tma",
        "intra_sm, transfer: «copy_engine»",
        "the copy engine is part of no SM | no schedule, or register or tma",
    ),
    "tile rows": (
        "[128, 256, 64]",
        "[«100», 256, 64]",
        "a tile of 100 rows is not possible | 128",
    ),
    "tile columns": (
        "[128, 256, 64]",
        "[128, «260», 64]",
        "a tile of 260 columns is not possible | 256",
    ),
    "tile depth": (
        "[128, 256, 64]",
        "[128, 256, «48»]",
        "a tile that takes 48 of K at a time is not possible | 64",
    ),
    "tile for the registers": (
        "tile: [128, 256, 64], stages: 4",
        "tile: «[256, 256, 64]»",
        "256 x 256 do not fit into the registers of an SM | [128, 256, 64]",
    ),
    "a tile of another size": (
        "[128, 256, 64]",
        "«[64, 256, 64]»",
        "a tile of 64 x 256 x 64 is not there yet | [128, 256, 64]",
    ),
    "no stages": ("stages: 4", "stages: «0»", "0 is out of range | 2 to 4"),
    "stages": ("stages: 4", "stages: «17»", "17 is out of range | 2 to 4"),
    "stages for the memory": (
        "stages: 4",
        "stages: «5»",
        "5 stages of 49152 bytes do not fit into the shared memory of an SM | at most 4",
    ),
}

REDUCE_CASES = {
    "blocks of K": (
        "world: 2..8\ndims: {M: 1..64, N: 32, K: 64}",
        "world: 3\ndims: {M: 1..64, N: 32, K: «64»}",
        "K is 64, which 3 ranks cannot divide | a multiple of 24",
    ),
    "rows of blocks of K": (
        "world: 2..8\ndims: {M: 1..64, N: 32, K: 64}",
        "world: 2\ndims: {M: 1..64, N: 32, K: «72»}",
        "K is 72 on 2 ranks, which makes rows that are no multiple of 16 bytes "
        "| a multiple of 8 elements (16 bytes) in every row of 'a'",
    ),
    "blocks of K of no world": (
        "world: 2..8\ndims: {M: 1..64, N: 32, K: 64}",
        "world: 3..4\ndims: {M: 1..64, N: 32, K: «65»}",
        "K is 65, which no world of 3..4 ranks divides",
    ),
    "reduce_scatter on axis 1": (
        "out: d, axis: 0",
        "out: d, axis: «1»",
        "reduce_scatter on axis 1 is not there yet | axis: 0",
    ),
    "a residual that is whole before a reduce_scatter": (
        "r: {shape: [M, N], dtype: bf16, shard: {axis: 0}}\n  d: {shape: [M, N], dtype: bf16, "
        "shard: {axis: 0}}\ngraph:\n  - {op: matmul, in: [a, b], transpose: [false, true], residual: r",
        "r: {shape: [M, N], dtype: bf16}\n  d: {shape: [M, N], dtype: bf16, "
        "shard: {axis: 0}}\ngraph:\n  - {op: matmul, in: [a, b], transpose: [false, true], residual: «r»",
        "matmul: 'r' is bf16 [M, N] "
        "| bf16 [M, N] sharded on axis 0, as 'd', the sum to which it is added once",
    ),
    "copy engine for a sum": (
        "comm_sms: 8",
        "transfer: «copy_engine»",
        "the copy engine cannot add, which reduce_scatter does | register or tma",
    ),
    "multimem for a fixed order": (
        "comm_sms: 8",
        "transfer: «multimem»",
        "multimem adds inside the network, where additions have no fixed order | register or tma",
    ),
}

EXCHANGE_CASES = {
    "one axis": (
        "split: 1, concat: 0",
        "split: «0», concat: 0",
        "all_to_all splits and joins on the same axis 0, which changes nothing | split: 1",
    ),
    "the other axis": (
        "in: x, split: 1, concat: 0",
        "in: «x», split: 0, concat: 1",
        "all_to_all: 'x' is bf16 [M, N] sharded on axis 0 "
        "| a tensor that is sharded on axis 1, on which the blocks are joined",
    ),
    "rows of both": (
        "N: 32",
        "N: «36»",
        "N is 36, which makes rows that are no multiple of 16 bytes "
        "| a multiple of 8 elements (16 bytes) in every row of 'x'",
    ),
    "SMs of their own": (
        "transfer: register",
        "comm_sms: «132»",
        "there is no matmul to overlap with, so all SMs communicate | no comm_sms",
    ),
    "multimem": (
        "transfer: register",
        "transfer: «multimem»",
        "multimem sends the same to every rank, but all_to_all sends each its own | register",
    ),
    "copy engine": (
        "transfer: register",
        "transfer: «copy_engine»",
        "transfer: copy_engine is not there yet | register",
    ),
    "tile": (
        "transfer: register",
        "tile: «[64, 64, 64]»",
        "there is no matmul, so tile has no meaning | no tile",
    ),
    "stages": (
        "transfer: register",
        "stages: «4»",
        "there is no matmul, so stages has no meaning | no stages",
    ),
    "schedule": (
        "transfer: register",
        "schedule: «inter_sm»",
        "there is no matmul, so schedule has no meaning | no schedule",
    ),
}


def check(base: str, old: str, new: str, words: str) -> None:
    marked = edited(old, new, base)
    assert_only(errors_of(marked.text), marked, words.replace(" | | ", " |  | "))


@pytest.mark.parametrize(("old", "new", "words"), CASES.values(), ids=CASES.keys())
def test_error(old: str, new: str, words: str) -> None:
    check(KERNEL, old, new, words)


@pytest.mark.parametrize(("old", "new", "words"), REDUCE_CASES.values(), ids=REDUCE_CASES.keys())
def test_error_of_a_sum_over_ranks(old: str, new: str, words: str) -> None:
    check(REDUCE, old, new, words)


@pytest.mark.parametrize(("old", "new", "words"), EXCHANGE_CASES.values(), ids=EXCHANGE_CASES.keys())
def test_error_of_a_collective(old: str, new: str, words: str) -> None:
    check(EXCHANGE, old, new, words)


NETWORK_CASES = {
    "a fixed order": (
        "deterministic: false\noverlap: {transfer: multimem}",
        "overlap: {transfer: «multimem»}",
        "multimem adds inside the network, where additions have no fixed order (deterministic: false allows "
        "that) | register",
    ),
    "one rank, maybe": (
        "world: 2..8",
        "world: «1..8»",
        "multimem adds what two ranks or more have, but the world may be 1 | 2..8",
    ),
    "one or two": (
        "world: 2..8",
        "world: «1..2»",
        "multimem adds what two ranks or more have, but the world may be 1 | 2",
    ),
    "one rank": (
        "world: 2..8",
        "world: «1»",
        "multimem adds what two ranks or more have, but the world may be 1 | 2",
    ),
    "shares of SMs": (
        "transfer: multimem",
        "transfer: multimem, stages: «4»",
        "there is no matmul, so stages has no meaning | no stages",
    ),
}


@pytest.mark.parametrize(("old", "new", "words"), NETWORK_CASES.values(), ids=NETWORK_CASES.keys())
def test_error_of_a_sum_in_the_network(old: str, new: str, words: str) -> None:
    check(IN_NETWORK, old, new, words)


def test_names_that_no_field_can_have() -> None:
    for name, place, message in (
        ("new", "  new:", "'new' is a reserved word, and the generated code has a field 'new'"),
        ("m", "  m:", "'m' would be the field 'm' of the arguments, as is 'M'"),
        ("a_stride", "  a:", "'a' would be the field 'a_stride' of the arguments, as is 'a_stride'"),
        ("struct_bytes", "  struct_bytes:", "as is a field of every kernel's arguments"),
        *(
            (name, f"  {name}:", f"'{name}' has a meaning of its own where the generated code has a field")
            for name in (
                *("uint64_t", "errno", "EOF", "self", "stream", "sizes"),
                *("SMALL_H", "SMALL_API", "SMALL_ABI_VERSION", "PK_CUDA", "INT8_MAX", "EINVAL", "__GNUC__"),
            )
        ),
    ):
        text = REDUCE.replace("  r: {", f"  {name}: {{").replace("residual: r,", f"residual: {name},")
        (error,) = errors_of(text)
        assert message in error.message
        assert error.span.source.startswith(place)


def test_names_like_those_that_no_field_can_have() -> None:
    for name in ("SMALL", "SMALL_h", "small_h", "E", "MAX", "int8_max", "pk_x", "_r"):
        build_kernel(parse_kernel_spec(REDUCE.replace("r: {", f"{name}: {{").replace(": r,", f": {name},")))
    build_kernel(parse_kernel_spec(REDUCE.replace("M", "SMALL_H")))  # the field is small_h
