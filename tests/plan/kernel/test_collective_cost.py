"""The cost of collectives against what was measured, and against what the operators say that they send."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from kgen.passes.kernel.pipeline import compile_kernel
from kgen.plan.kernel.cost_collective import CollectivePrediction, predict_collective
from kgen.plan.kernel.measured import H200, Curve
from kgen.plan.kernel.plan import CollectivePlan
from kgen.report.kernel import explain_kernel
from tests.kernels import COLLECTIVES, IN_NETWORK, kernel, shipped

MIB = 1 << 20
US = 1e-6


def predicted(name: str, m: int, world: int = 2, n: int = 8192) -> CollectivePrediction:
    text = COLLECTIVES[name].replace("M: 1..64, N: 48", f"M: 1..65536, N: {n}").replace("1..8", "1..16")
    plan = compile_kernel(kernel(text)).plan
    assert isinstance(plan, CollectivePlan)
    return predict_collective(plan, {"M": m}, world, H200)


# Whole tensors of so many MiB on two H200 (tests/bench/NOTES.md): microseconds here, and by NCCL.
MEASURED = {
    "gather": [(128, 194, 304), (16, 30, 56.8)],
    "scatter": [(128, 212, 309), (16, 34, 53.2)],
    "all_reduce": [(256, 796, 904), (1, 7.4, 20.3), (1 / 16, 4.0, 10.7)],
    "to_columns": [(512, 378, 479)],
    "to_rows": [(512, 376, 479)],
}


@pytest.mark.parametrize("name", MEASURED)
def test_what_was_measured(name: str) -> None:
    for mib, us, nccl in MEASURED[name]:
        n = 8192 if mib >= 1 else 2048
        found = predicted(name, int(mib * MIB) // (2 * n), n=n)
        assert found.own == pytest.approx(us * US, rel=0.03), (name, mib)
        if nccl:
            assert found.library == pytest.approx(nccl * US, rel=0.04), (name, mib)


@pytest.mark.parametrize("world", [2, 4, 8])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_bytes_are_those_of_the_operator(name: str, world: int) -> None:
    graph = kernel(COLLECTIVES[name].replace("N: 48", "N: 8192").replace("1..64", "1..65536"))
    (cost,) = graph.costs({"M": 4096}, world).values()
    assert predicted(name, 4096, world).sent == cost.link_bytes


def test_one_shot_and_two() -> None:
    one, two = predicted("all_reduce", 64, 4), predicted("all_reduce", 65, 4)
    assert (one.shots, two.shots) == (1, 2)
    assert one.sent == 3 * MIB  # all of the summand to each peer
    assert two.sent == 2 * 3 * 65 * 8192 * 2 // 4
    assert one.own == pytest.approx(0.56 * US + 1.2 * US + 2 * US + 3 * MIB / 289e9)
    assert predicted("scatter", 64, 4).shots == 0


def test_ragged_rows_are_those_of_the_largest_share() -> None:
    assert predicted("gather", 5, 4).sent == 3 * 2 * 8192 * 2
    pieces = predicted("all_reduce", 65537, 4, n=8)  # 1 MiB and one of 16 bytes
    assert (pieces.shots, pieces.sent) == (2, 2 * 3 * 16385 * 16)
    assert predicted("all_reduce", 65536, 4, n=8).shots == 1


@pytest.mark.parametrize(
    ("name", "m", "world", "verdict"),
    [
        ("gather", 8192, 1, "nothing to send: a copy"),
        ("gather", 32768, 2, "faster than NCCL"),
        ("all_reduce", 1, 2, "likely faster than NCCL"),
        ("all_reduce", 64, 16, "likely slower than NCCL"),
        ("all_reduce", 4, 2, "faster than NCCL"),
        ("gather", 64, 2, "likely faster than NCCL"),
    ],
)
def test_verdicts(name: str, m: int, world: int, verdict: str) -> None:
    assert predicted(name, m, world).verdict == verdict


def test_a_world_of_one_copies() -> None:
    found = predicted("all_reduce", 4096, 1)
    assert (found.sent, found.shots, found.speed_up) == (0, 0, 1)
    assert found.own == pytest.approx(0.56 * US + 2 * 4096 * 8192 * 2 / 4.5e12)


def in_network(m: int, world: int) -> CollectivePrediction:
    plan = compile_kernel(kernel(IN_NETWORK.replace("M: 1..64, N: 48", "M: 1..65536, N: 8192"))).plan
    assert isinstance(plan, CollectivePlan)
    return predict_collective(plan, {"M": m}, world, H200)


def test_sums_in_the_network_were_never_measured() -> None:
    """The time is what cannot be less: all of the summand and a share of the sums sent, and two copies."""
    found = in_network(16384, 4)  # 256 MiB
    assert (found.sent, found.shots, found.measured) == (256 * MIB + 64 * MIB, 0, False)
    copies = 2 * (0.56 * US + 2 * 256 * MIB / 4.5e12)
    assert found.own == pytest.approx(0.56 * US + 2 * 1.2 * US + 320 * MIB / 368e9 + copies)
    assert found.verdict == "never measured; it takes no less"
    assert predicted("all_reduce", 16384, 4).measured
    assert in_network(1, 2).shots == 0


def test_the_report_of_sums_in_the_network() -> None:
    report = explain_kernel(compile_kernel(kernel(IN_NETWORK)))
    about = report.to_json()
    assert {p["measured"] for p in about["predictions"]} == {False}
    assert {tuple(sample["transfers"]) for sample in about["samples"]} == {("multimem",) * 3}
    assert not any("shots" in sample for sample in about["samples"])
    console = Console(width=200, record=True, file=StringIO())
    console.print(report.to_table())
    assert "Sums in the network were never measured" in console.export_text()
    assert "measured" not in explain_kernel(compile_kernel(shipped("all_reduce"))).to_json()["predictions"][0]


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
def test_reports(name: str) -> None:
    report = explain_kernel(compile_kernel(shipped(name)))
    about = report.to_json()
    assert [p["sizes"] for p in about["predictions"]] == [{"M": m} for m in (1, 128, 2048, 8192, 32768)]
    assert {sample.get("shots") for sample in about["samples"]} == (
        {1, 2} if name == "all_reduce" else {None}
    )
    last = about["predictions"][-1]
    assert last["verdict"] == "faster than NCCL"
    assert last["speed_up"] == pytest.approx(last["us"]["library"] / last["us"]["own"], abs=1e-3)
    assert about["choices"][0]["chosen"] == "register"


@pytest.mark.parametrize("curve", [H200.all_reduce, H200.collective])
def test_nccl_grows_with_what_is_sent(curve: Curve) -> None:
    assert curve.seconds(0) == 0
    assert curve.seconds(1) == curve.seconds(MIB / 16) == curve.points[0][1]
    assert [curve.seconds(size) for size, _ in curve.points] == pytest.approx([us for _, us in curve.points])
    times = [curve.seconds(4096 * 1.2**i) for i in range(80)]
    assert times == sorted(times)
