"""What a kernel's plan says, and what the runtime refuses."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kgen.diagnostics import SpecError
from kgen.ir.kernel.overlap import Schedule, Transfer
from kgen.ir.problem import Problem
from kgen.passes.errors import CompileError
from kgen.passes.kernel.pipeline import compile_kernel
from kgen.paths import project_templates
from kgen.plan.kernel.plan import DimRow, Part, ProductPlan, Role
from kgen.plan.kernel.runtime import COPIES_LEAST, NARROW_MOST, Copies, Reduce, refusals
from kgen.render.kernel import make_kernel
from tests.kernels import (
    AG,
    AG_ALL,
    AG_KEEP,
    AG_SILU,
    AR,
    AR_ALL,
    COLLECTIVES,
    GATHER,
    GEMM,
    RS,
    RS_ALL,
    SPECS,
    kernel,
    shipped,
)

AG_RS = AG.replace("[c]", "[d]").replace(
    "  c: {shape: [M, N], dtype: bf16}",
    "  c: {shape: [M, N], dtype: bf16, partial: true}\n  d: {shape: [M, N], dtype: bf16, shard: {axis: 0}}",
)
AG_RS = AG_RS.replace("outputs", "  - {op: reduce_scatter, in: c, out: d, axis: 0}\noutputs")


def plan_of(text: str) -> ProductPlan:
    plan = compile_kernel(kernel(text)).plan
    assert isinstance(plan, ProductPlan)
    return plan


def test_a_reduction() -> None:
    plan = plan_of((SPECS / "gemm_rs.yaml").read_text())
    assert (plan.gather, plan.reduce, plan.deterministic) == (False, Reduce.SCATTER, True)
    assert (plan.m, plan.n, plan.k) == (Part("M", False), Part("N", False), Part("K", True))
    assert plan.worlds == (1, 2, 4, 8)
    assert plan.dims == (DimRow("M", 1, 32768), DimRow("N", 4096, 4096), DimRow("K", 8192, 8192))
    assert [(t.name, t.role, t.shape, t.shard) for t in plan.tensors] == [
        ("a", Role.ROWS, ("M", "K"), 1),
        ("b", Role.WEIGHT, ("N", "K"), 1),
        ("d", Role.OUTPUT, ("M", "N"), 0),
    ]
    assert (plan.tile, plan.stages, plan.grid) == ((128, 256, 64), 4, (128, 256, 2, 8))


def test_operands() -> None:
    def roles(text: str) -> list[tuple[str, str]]:
        return [(t.name, t.role.value) for t in plan_of(text).tensors]

    assert roles(AG) == [("a", "rows"), ("b", "weight"), ("c", "output")]
    assert roles(AG_SILU) == [("a", "rows"), ("b", "weight"), ("u", "up"), ("c", "output")]
    added = [("s", "bias"), ("r", "residual"), ("c", "output")]
    assert roles(AG_ALL) == [("a", "rows"), ("b", "weight"), *added]
    assert (plan_of(AG_SILU).silu_mul, plan_of(AG_ALL).bias, plan_of(AG_ALL).residual) == (True, True, True)


def test_a_number_in_a_shape_gets_a_dim() -> None:
    text = GEMM.replace("N: 24, K: 16", "K: 8..64").replace("[N, K]", "[24, K]").replace("[M, N]", "[M, 24]")
    plan = plan_of(text)
    assert plan.dims == (DimRow("M", 1, 64), DimRow("K", 8, 64), DimRow("N", 24, 24))
    assert plan.tensors[1].shape == ("N", "K")
    taken = plan_of(text.replace("M:", "N:").replace("[M,", "[N,"))
    assert [dim.name for dim in taken.dims] == ["N", "K", "N_"]


def test_columns_of_each_rank() -> None:
    text = AG.replace("b: {shape: [N, K], dtype: bf16}", "b: {shape: [N, K], dtype: bf16, shard: {axis: 0}}")
    plan = plan_of(text.replace("[M, N], dtype: bf16}", "[M, N], dtype: bf16, shard: {axis: 1}}"))
    assert plan.n == Part("N", True)
    assert plan.worlds == (1, 3)
    assert [t.shard for t in plan.tensors] == [0, 0, 1]


def test_the_digest_is_that_of_the_plan() -> None:
    assert plan_of(AG).digest == plan_of(AG).digest
    assert len({plan_of(text).digest for text in (AG, RS, AG.replace("M: 1..64", "M: 1..65"))}) == 3
    assert 0 < make_kernel(plan_of(AG))["digest"] < 2**64


def test_what_templates_get() -> None:
    kernel_ = make_kernel(plan_of(RS + "deterministic: false\n"))
    assert (kernel_["kind"], kernel_["partial"], kernel_["reduce"]) == ("gemm_rs", "element", "scatter")
    assert kernel_["world"] == {"lo": 1, "hi": 6}
    assert kernel_["k"] == {"dim": "K", "split": True}
    assert make_kernel(plan_of(AG))["kind"] == "ag_gemm"


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: str(path.stem))
def test_all_shipped_kernels_are_there(path: Path) -> None:
    assert refusals(shipped(path.stem)) == []


def problem_of(text: str) -> Problem:
    with pytest.raises(CompileError) as caught:
        compile_kernel(kernel(text))
    (problem,) = caught.value.problems
    assert isinstance(problem, Problem)
    return problem


@pytest.mark.parametrize(
    ("text", "operator", "message", "expected"),
    [
        (
            AG.replace(GATHER, "").replace("a_full", "a").replace("[M, N],", "[M, N], shard: {axis: 0},"),
            "matmul",
            "matmul: a product of rows that are sharded (`a`) is not there yet without all_gather",
            "an all_gather of `a` before it",
        ),
        (
            AG_RS,
            "reduce_scatter",
            "reduce_scatter after matmul is not there yet",
            "one collective, [matmul], [all_gather, matmul], [matmul, reduce_scatter], [matmul, all_reduce]",
        ),
    ],
)
def test_operators_that_are_not_there_yet(text: str, operator: str, message: str, expected: str) -> None:
    problem = problem_of(text)
    assert (problem.operator, str(problem), problem.expected) == (operator, message, expected)


def test_summands_are_no_output() -> None:
    (problem,) = refusals(replace(kernel(RS), outputs=("d", "c")))
    assert (problem.operator, str(problem), problem.expected) == (
        "matmul",
        "matmul: `c` as an output is not there yet",
        "outputs: [d]",
    )


@pytest.mark.parametrize("outputs", ["[c, a_full]", "[a_full, c]"])
def test_gathered_rows_as_an_output(outputs: str) -> None:
    plan = plan_of(AG_KEEP.replace("[c, a_full]", outputs))
    assert plan.keep_rows
    kept, output = (next(t for t in plan.tensors if t.role is role) for role in (Role.GATHERED, Role.OUTPUT))
    assert (kept.name, kept.shape, kept.shard) == ("a_full", ("M", "K"), None)
    assert (output.name, output.shape) == ("c", ("M", "N"))
    assert make_kernel(plan)["keep_rows"]
    assert not plan_of(AG_ALL).keep_rows


def test_nothing_is_added_to_summands_that_nothing_adds_up() -> None:
    whole = kernel(AR_ALL)
    graph = replace(whole, ops=whole.ops[:1], outputs=("c",))
    assert graph.check() == []
    assert [(problem.operator, str(problem), problem.expected) for problem in refusals(graph)] == [
        (
            "matmul",
            f"matmul: `{name}` is added once, to the sum over the ranks, but `c` is partial, and nothing "
            "here adds it up",
            f"a reduce_scatter or an all_reduce of `c`, or no `{name}`",
        )
        for name in ("s", "r")
    ]
    assert refusals(replace(graph, ops=(replace(graph.ops[0], bias=None, residual=None),))) == []


def test_a_residual_lies_like_the_sum() -> None:
    whole = kernel(RS_ALL)
    tensors = tuple(
        replace(t, type=replace(t.type, shard=None)) if t.name == "r" else t for t in whole.tensors
    )
    assert whole.check() == []
    assert replace(whole, tensors=tensors).check() == ["matmul: matmul: 'r' is bf16 [M, N]"]


@pytest.mark.parametrize(("text", "shard"), [(RS_ALL, 0), (AR_ALL, None)], ids=["rs", "ar"])
def test_what_is_added_to_a_sum(text: str, shard: int | None) -> None:
    plan = plan_of(text)
    assert (plan.bias, plan.residual) == (True, True)
    assert [(t.name, t.role, t.shard) for t in plan.tensors[2:4]] == [
        ("s", Role.BIAS, None),
        ("r", Role.RESIDUAL, shard),
    ]


def test_choices_that_are_there() -> None:
    text = f"{AG}overlap: {{schedule: intra_sm, transfer: register, tile: [128, 256, 64], stages: 3}}\n"
    compilation = compile_kernel(kernel(text))
    assert compilation.plan.stages == 3
    reasons = {what: why for what, _, why in compilation.choice.reasons if what != "few rows"}
    assert set(reasons.values()) == {"the spec asks for it"}
    assert set(reasons) == {"schedule", "transfer", "tile", "stages"}


@pytest.mark.parametrize("text", [AG, RS, AR], ids=["ag", "rs", "ar"])
@pytest.mark.parametrize(
    ("overlap", "comm_sms"),
    [("schedule: inter_sm", 16), ("comm_sms: 66", 66), ("schedule: inter_sm, comm_sms: 2", 2)],
)
def test_sms_that_only_communicate(text: str, overlap: str, comm_sms: int) -> None:
    plan = plan_of(f"{text}overlap: {{{overlap}}}\n")
    assert (plan.schedule, plan.comm_sms) == (Schedule.INTER_SM, comm_sms)
    assert (plan.copies, plan.transfer, plan.pace) == (Copies.NEVER, Transfer.REGISTER, 0)
    assert make_kernel(plan)["comm_sms"] == comm_sms
    assert plan.digest != plan_of(text).digest


def test_sms_that_do_both() -> None:
    for text in (AG, RS, AR, GEMM):
        assert plan_of(text).comm_sms == 0
    plan = plan_of(f"{RS}overlap: {{schedule: intra_sm}}\n")
    assert (plan.schedule, plan.comm_sms, plan.pace) == (Schedule.INTRA_SM, 0, 8000)
    assert make_kernel(compile_kernel(kernel(COLLECTIVES["gather"])).plan)["comm_sms"] == 0


def test_why_sms_only_communicate() -> None:
    given = reasons(f"{AR}overlap: {{schedule: inter_sm}}\n")
    assert given["schedule"] == ("inter_sm", "the spec asks for it")
    value, why = given["comm_sms"]
    assert value == "16"
    assert "stores of 16 SMs reach 338 of the 368 GB/s of all" in why
    assert given["few rows"][1].endswith("; so there none only communicates")
    given = reasons(f"{AG}overlap: {{comm_sms: 8}}\n")
    assert given["schedule"] == ("inter_sm", "it has SMs that only communicate (comm_sms)")
    assert given["comm_sms"] == ("8", "the spec asks for it")
    assert given["transfer"][0] == "register"
    given = reasons(AR)
    assert "comm_sms" not in given
    assert not given["few rows"][1].endswith("communicates")


def asking(text: str, transfer: str) -> str:
    return f"{text}overlap: {{transfer: {transfer}}}\n" if transfer else text


@pytest.mark.parametrize(
    ("text", "transfer", "copies", "schedule"),
    [
        (AG, "", Copies.BY_SIZE, Schedule.INTRA_SM),
        (AG_SILU, "", Copies.BY_SIZE, Schedule.INTRA_SM),
        (AG, "register", Copies.NEVER, Schedule.INTRA_SM),
        (AG, "copy_engine", Copies.ALWAYS, None),
        (RS, "", Copies.NEVER, Schedule.INTRA_SM),
        (AR, "register", Copies.NEVER, Schedule.INTRA_SM),
        (GEMM, "", Copies.NEVER, Schedule.INTRA_SM),
    ],
)
def test_when_rows_are_copied(text: str, transfer: str, copies: Copies, schedule: Schedule | None) -> None:
    plan = plan_of(asking(text, transfer))
    moved = Transfer.COPY_ENGINE if copies is Copies.ALWAYS else Transfer.REGISTER
    assert (plan.copies, plan.transfer, plan.schedule) == (copies, moved, schedule)
    assert make_kernel(plan)["copies"] == copies.value
    large = Transfer.COPY_ENGINE if copies is Copies.BY_SIZE else moved
    assert [plan.moved_by(size) for size in (COPIES_LEAST - 1, COPIES_LEAST)] == [moved, large]


def test_each_way_to_copy_is_a_plan_of_its_own() -> None:
    assert len({plan_of(asking(AG, way)).digest for way in ("", "register", "copy_engine")}) == 3


def test_collectives_are_not_copied() -> None:
    assert make_kernel(compile_kernel(kernel(COLLECTIVES["gather"])).plan)["copies"] == "never"


@pytest.mark.parametrize("text", [AG, RS, AR])
def test_bulk_copies_where_a_spec_asks_for_them(text: str) -> None:
    asked = asking(text, "tma")
    assert reasons(asked)["transfer"] == ("tma", "the spec asks for it")
    assert [make_kernel(plan_of(t))["by_tma"] for t in (text, asked)] == [False, True]
    assert make_kernel(plan_of(asked))["copies"] == "never"


def test_the_copy_engine_does_not_add() -> None:
    """The frontend says so first."""
    with pytest.raises(SpecError, match="the copy engine cannot add, which reduce_scatter does"):
        kernel(asking(RS, "copy_engine"))


def reasons(text: str) -> dict[str, tuple[str, str]]:
    return {what: (value, why) for what, value, why in compile_kernel(kernel(text)).choice.reasons}


def test_why_rows_are_copied() -> None:
    value, why = reasons((SPECS / "ag_gemm.yaml").read_text())["transfer"]
    assert value == "register, copy_engine from 32 MiB on"
    assert "each rank has 32 MiB of rows (here 2,048) and a device of its own" in why
    _, why = reasons(AG.replace("K: 16", "K: 16..64"))["transfer"]
    assert "each rank has 32 MiB of rows and a device of its own" in why
    asked = reasons(asking(AG, "copy_engine"))
    assert asked["transfer"] == ("copy_engine", "the spec asks for it")
    assert "schedule" not in asked


@pytest.mark.parametrize(
    ("text", "there"),
    [
        *((AR, True), (RS, True), (AG, True), (GEMM, True)),
        *((asking(AG, "copy_engine"), False), (AG.replace("outputs: [c]", "outputs: [c, a_full]"), False)),
        *((AR.replace("1..64", "129..200"), False), (AR.replace("1..64", "128"), True)),
    ],
)
def test_few_rows(text: str, there: bool) -> None:
    assert ("the weight is read once" in reasons(text).get("few rows", ("",))[0]) == there


def test_how_many_rows_are_few() -> None:
    plan = plan_of(AR)
    rows = {world: max(m for m in range(1, 200) if plan.narrow(m, world)) for world in (1, 2, 3, 8)}
    assert rows == {1: 128, 2: 128, 3: 64, 8: 18}
    assert [plan_of(RS).narrow(m, 3) for m in (64, 65)] == [True, False]
    gather = plan_of(AG.replace("M: 1..64", "M: 1..200"))
    assert [gather.narrow(m, 8) for m in (128, 129)] == [True, False]
    assert not plan_of(asking(AG, "copy_engine")).narrow(1, 2)


SHOW = """
#include <cstdio>
#include "pk/lcsc/copies.hpp"
#include "pk/lcsc/narrow_plan.hpp"
int main() {
  std::printf("%llu %u", static_cast<unsigned long long>(pk::lcsc::copies_least), pk::lcsc::narrow::max_m);
}
"""


def test_the_headers_have_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "show.cpp").write_text(SHOW)
    include = project_templates() / "include"
    command = ["g++", "-std=c++20", "-Wno-psabi", f"-I{include}", "show.cpp", "-o", "show"]
    subprocess.run(command, cwd=tmp_path, check=True)
    numbers = subprocess.check_output([tmp_path / "show"]).split()
    assert list(map(int, numbers)) == [COPIES_LEAST, NARROW_MOST]
