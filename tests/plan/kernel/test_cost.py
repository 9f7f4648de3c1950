"""The cost model: what it is made of, and what it says at sizes where the answer is known."""

from __future__ import annotations

import pytest

from kgen.ir.kernel.overlap import Transfer
from kgen.passes.kernel.pipeline import compile_kernel
from kgen.plan.kernel.cost import Prediction, predict
from kgen.plan.kernel.measured import H200
from kgen.report.kernel import explain_kernel
from tests.kernels import SPECS, kernel, shipped

US = 1e-6
RS = (SPECS / "gemm_rs.yaml").read_text()


def predicted(name: str, m: int, world: int = 2) -> Prediction:
    return predict(compile_kernel(shipped(name)).plan, {"M": m}, world, H200)


def test_the_copy_engine_needs_large_messages() -> None:
    rate = H200.transfers[Transfer.COPY_ENGINE]
    assert 1e6 / rate.seconds(1e6) == pytest.approx(82e9)
    assert 1e9 / rate.seconds(1e9) == pytest.approx(394e9, rel=0.01)
    assert rate.seconds(0) == 0


def test_a_product_takes_rounds_of_tiles() -> None:
    one = predicted("gemm", 128, 1)
    assert one.own == pytest.approx(64 * 0.61 * US)  # 16 tiles on 132 SMs: one round of K / 64 steps
    assert one.product == pytest.approx((4096 * 4096 + 2 * 128 * 4096) * 2 / 4.5e12)  # of memory
    large = predicted("gemm", 32768, 1)
    assert large.own == pytest.approx(2 * 32768 * 4096 * 4096 / 780e12)


def test_the_bound() -> None:
    p = predicted("ag_gemm", 8192)
    assert p.communication == pytest.approx(30 * US + 4096 * 8192 * 2 / 290e9)
    assert p.bound == pytest.approx(1 + p.communication / p.product)
    assert 1.2 < p.speed_up < p.bound + 0.02
    assert p.fused > p.own
    assert p.verdict == "worth fusing"


def test_summands_are_twice_as_large_when_deterministic() -> None:
    assert shipped("gemm_rs").deterministic
    fast = compile_kernel(kernel(RS.replace("deterministic: true", "deterministic: false"))).plan
    assert predicted("gemm_rs", 8192).sent == pytest.approx(2 * predict(fast, {"M": 8192}, 2, H200).sent)


@pytest.mark.parametrize(
    ("name", "m", "world", "verdict"),
    [
        ("gemm", 8192, 1, "nothing to hide"),
        ("gemm_rs", 8192, 1, "nothing to hide"),
        ("gemm_rs", 1, 2, "not worth fusing: too few tiles for the SMs, so its product alone takes 39 us"),
        ("gemm_rs", 32768, 2, "worth fusing"),
    ],
)
def test_verdicts(name: str, m: int, world: int, verdict: str) -> None:
    assert predicted(name, m, world).verdict == verdict


def test_longer_communication_than_product() -> None:
    text = RS.replace("K: 8192", "K: 512")
    p = predict(compile_kernel(kernel(text)).plan, {"M": 32768}, 8, H200)
    assert p.communication > p.product
    assert p.bound == pytest.approx(1 + p.product / p.communication)
    assert p.verdict == "not worth fusing: it sends more than it hides"


def test_sizes_of_the_report() -> None:
    compilation = compile_kernel(shipped("gemm_rs"))
    report = explain_kernel(compilation)
    assert [p.sizes for p in report.predictions] == [{"M": m} for m in (1, 128, 2048, 8192, 32768)]
    assert {p.world for p in report.predictions} == {2}
    assert explain_kernel(compilation, {"M": 2999}, 4).predictions[0].sizes == {"M": 2999}
    with pytest.raises(ValueError, match=r"M is 0, which is not in 1\.\.32768"):
        explain_kernel(compilation, {"M": 0})


def test_sizes_of_a_kernel_without_ranges_and_with_two() -> None:
    fixed = RS.replace("M: 1..32768", "M: 640")
    (prediction,) = explain_kernel(compile_kernel(kernel(fixed))).predictions
    assert prediction.sizes == {}
    two = RS.replace("M: 1..32768", "M: 200..640").replace("K: 8192", "K: 8..8100")
    sizes = [p.sizes for p in explain_kernel(compile_kernel(kernel(two))).predictions]
    assert sizes == [{"M": 640, "K": 8096}]
