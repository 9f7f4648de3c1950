"""What the plan of a collective by itself says, what templates get of it, and what the runtime refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kgen.ir.kernel.overlap import Transfer
from kgen.passes.kernel.pipeline import compile_kernel
from kgen.paths import project_templates
from kgen.plan.kernel.plan import CollectivePlan, DimRow, Part, Role
from kgen.plan.kernel.runtime import ONE_SHOT_BYTES, ONE_SHOT_MOST, PIECE, Collective
from kgen.render.kernel import make_kernel
from kgen.spec.kernel_fields import MAX_WORLD
from tests.kernels import AG, AR, COLLECTIVES, GEMM, IN_NETWORK, RS, collective, kernel

SHARDS = {  # of the input and of the output
    "gather": (0, None),
    "scatter": (None, 0),
    "all_reduce": (None, None),
    "to_columns": (0, 1),
    "to_rows": (1, 0),
}
KINDS = {
    "gather": "all_gather",
    "scatter": "reduce_scatter",
    "all_reduce": "all_reduce",
    "to_columns": "all_to_all",
    "to_rows": "all_to_all",
}


def plan_of(text: str) -> CollectivePlan:
    plan = compile_kernel(kernel(text)).plan
    assert isinstance(plan, CollectivePlan)
    return plan


@pytest.mark.parametrize("name", COLLECTIVES)
def test_plans(name: str) -> None:
    plan = plan_of(COLLECTIVES[name])
    before, after = SHARDS[name]
    assert plan.collective is Collective(name)
    assert (plan.m, plan.n) == (Part("M", False), Part("N", 1 in (before, after)))
    assert plan.dims == (DimRow("M", 1, 64), DimRow("N", 48, 48))
    assert [(t.name, t.role, t.dtype, t.shape, t.shard) for t in plan.tensors] == [
        ("x", Role.ROWS, "bf16", ("M", "N"), before),
        ("y", Role.OUTPUT, "bf16", ("M", "N"), after),
    ]
    assert (plan.schedule, plan.transfer, plan.deterministic) == (None, Transfer.REGISTER, True)


def test_worlds_are_those_whose_columns_are_whole_pieces() -> None:
    assert plan_of(COLLECTIVES["gather"]).worlds == (1, 2, 3, 4, 5, 6, 7, 8)
    assert plan_of(COLLECTIVES["to_columns"]).worlds == (1, 2, 3, 6)  # 48 / world is a multiple of 8
    ranges = COLLECTIVES["to_rows"].replace("N: 48", "N: 8..40")
    assert plan_of(ranges).worlds == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_columns_at_the_call(name: str) -> None:
    graph = kernel(COLLECTIVES[name].replace("N: 48", "N: 8..480"))
    assert graph.call_problems({"M": 7, "N": 48}, 2) == []
    assert graph.call_problems({"M": 7, "N": 44}, 2) != []
    split = name in ("to_columns", "to_rows")
    assert (graph.call_problems({"M": 7, "N": 40}, 2) != []) == split


def test_one_dim_for_rows_and_columns() -> None:
    text = COLLECTIVES["gather"].replace("M: 1..64, N: 48", "N: 8..64").replace("[M, N]", "[N, N]")
    plan = plan_of(text)
    assert (plan.dims, plan.m.dim, plan.n.dim) == ((DimRow("N", 8, 64),), "N", "N")


def test_numbers_in_shapes() -> None:
    text = COLLECTIVES["scatter"].replace("{M: 1..64, N: 48}", "{M: 1..64}").replace("[M, N]", "[M, 48]")
    plan = plan_of(text)
    assert plan.dims == (DimRow("M", 1, 64), DimRow("N", 48, 48))
    assert [t.shape for t in plan.tensors] == [("M", "N")] * 2


def test_digests_differ() -> None:
    texts = [*COLLECTIVES.values(), COLLECTIVES["gather"].replace("bf16", "f16")]
    assert len({plan_of(text).digest for text in texts}) == len(texts)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_what_templates_get(name: str) -> None:
    found = make_kernel(plan_of(COLLECTIVES[name]))
    nothing = {"gather": False, "reduce": "none", "bias": False, "residual": False, "silu_mul": False}
    assert {key: found[key] for key in nothing} == nothing
    assert (found["kind"], found["collective"], found["k"]) == (KINDS[name], name, None)
    assert (found["communicates"], found["shares"], found["partial"]) == (True, True, "element")
    assert found["world"] == {"lo": 1, "hi": 6 if name.startswith("to_") else 8}
    assert 0 < found["digest"] < 2**64


@pytest.mark.parametrize(
    ("text", "communicates", "shares"),
    [(GEMM, False, False), (AG, True, False), (RS, True, False), (AR, True, True)],
    ids=["gemm", "ag", "rs", "ar"],
)
def test_what_templates_get_of_products(text: str, communicates: bool, shares: bool) -> None:
    found = make_kernel(compile_kernel(kernel(text)).plan)
    assert found["collective"] is None
    assert (found["communicates"], found["shares"]) == (communicates, shares)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_f16(name: str) -> None:
    plan = plan_of(COLLECTIVES[name].replace("bf16", "f16"))
    assert (plan.dtype, plan.tensors[0].dtype) == ("f16", "f16")


def test_choices() -> None:
    def chosen(text: str) -> dict[str, str]:
        return {what: value for what, value, _ in compile_kernel(kernel(text)).choice.reasons}

    order = {"additions": "f32, in the order of the ranks"}
    assert chosen(COLLECTIVES["to_rows"]) == {"transfer": "register"}
    assert chosen(COLLECTIVES["scatter"]) == {"transfer": "register", **order}
    shots = {"shots": "one up to 1 MiB, two above"}
    assert chosen(COLLECTIVES["all_reduce"]) == {"transfer": "register", **shots, **order}
    asked = compile_kernel(kernel(COLLECTIVES["gather"] + "overlap: {transfer: register}\n")).choice.reasons
    assert asked == (("transfer", "register", "the spec asks for it"),)


def test_in_the_network() -> None:
    """Only a spec that names it gets it, and nothing of the caller is then seen by peers."""
    plan = plan_of(IN_NETWORK)
    assert (plan.transfer, plan.schedule, plan.worlds) == (Transfer.MULTIMEM, None, (2, 3, 4, 5, 6, 7, 8))
    assert (plan.collective, plan.deterministic) == (Collective.ALL_REDUCE, False)
    found = make_kernel(plan)
    assert (found["in_network"], found["shares"], found["communicates"]) == (True, False, True)
    chosen = {what: (value, why) for what, value, why in compile_kernel(kernel(IN_NETWORK)).choice.reasons}
    assert list(chosen) == ["transfer", "additions", "copies"]
    assert chosen["transfer"] == ("multimem", "the spec asks for it")
    assert chosen["additions"][0] == "f32, in any order"
    left_open = plan_of(IN_NETWORK.replace("overlap: {transfer: multimem}", ""))
    assert (left_open.transfer, make_kernel(left_open)["in_network"]) == (Transfer.REGISTER, False)
    assert left_open.digest != plan.digest


@pytest.mark.parametrize("text", [*COLLECTIVES.values(), AG, AR, GEMM, RS])
@pytest.mark.parametrize("loose", ["", "deterministic: false\n"])
def test_nothing_else_is_in_the_network(text: str, loose: str) -> None:
    compilation = compile_kernel(kernel(text + loose))
    assert not make_kernel(compilation.plan)["in_network"]
    assert "multimem" not in str(compilation.choice)


def test_a_vector_is_refused() -> None:
    text = collective("all_reduce", "partial: true", "").replace("[M, N]", "[N]").replace("M: 1..64, ", "")
    with pytest.raises(Exception, match="all_reduce of a vector is not there yet"):
        kernel(text)


SHOW = """
#include <cstdio>
#include "pk/lcsc/moves.hpp"
int main() {
  using pk::lcsc::Collective;
  std::printf("%d %d %d %d %d ", int(Collective::gather), int(Collective::scatter),
              int(Collective::all_reduce), int(Collective::to_columns), int(Collective::to_rows));
  std::printf("%d %d %d", int(pk::lcsc::max_ranks), int(pk::lcsc::small_most) * 16,
              int(pk::lcsc::small_pieces) * 16);
}
"""


def test_the_headers_have_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "show.cpp").write_text(SHOW)
    include = project_templates() / "include"
    command = ["g++", "-std=c++20", "-Wno-psabi", f"-I{include}", "show.cpp", "-o", "show"]
    subprocess.run(command, cwd=tmp_path, check=True)
    *numbers, ranks, most, of_block = map(int, subprocess.check_output([tmp_path / "show"]).split())
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == len(Collective)
    assert (ranks, most, of_block) == (MAX_WORLD, ONE_SHOT_MOST, ONE_SHOT_BYTES)
    assert PIECE * 2 == 16
