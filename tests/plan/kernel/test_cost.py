"""The cost model: what it is made of, and what it says at sizes where the answer is known."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from kgen.ir.kernel.overlap import Transfer
from kgen.passes.kernel.pipeline import compile_kernel
from kgen.plan.kernel.cost import Prediction, predict
from kgen.plan.kernel.measured import H200
from kgen.plan.kernel.plan import ProductPlan
from kgen.plan.kernel.runtime import COPIES_LEAST
from kgen.report.kernel import explain_kernel
from tests.kernels import SPECS, kernel, shipped

US = 1e-6
RS = (SPECS / "gemm_rs.yaml").read_text()
GEMM, GEMM_AR = ((SPECS / f"{name}.yaml").read_text() for name in ("gemm", "gemm_ar"))


def predicted(name: str, m: int, world: int = 2) -> Prediction:
    return predict(compile_kernel(shipped(name)).plan, {"M": m}, world, H200)


def test_the_copy_engine_needs_large_messages() -> None:
    rate = H200.transfers[Transfer.COPY_ENGINE]
    assert 1e6 / rate.seconds(1e6) == pytest.approx(82e9)
    assert 1e9 / rate.seconds(1e9) == pytest.approx(394e9, rel=0.01)
    assert rate.seconds(0) == 0


def test_a_product_takes_rounds_of_tiles() -> None:
    """Of 16 or 64 steps of K. Pairs of tiles, of which 66 go at a time, and 8 or 16 are side by side."""
    text = GEMM.replace("N: 4096, K: 4096", "N: 2048, K: 1024")
    one = predict(compile_kernel(kernel(text)).plan, {"M": 129}, 1, H200)
    assert one.own == pytest.approx((5.4 + 16 * 0.305) * US)  # of half the width
    one = predicted("gemm", 129, 1)
    assert one.product == pytest.approx(2.2 * US + 4096 * 4096 * 2 / 3.77e12 * (1 + 129 / 860))  # of memory
    whole = predicted("gemm", 66 * 256, 1)
    assert whole.own == pytest.approx((5.4 + 16 * 64 * 0.75) * US)
    assert whole.product == pytest.approx(2.2 * US + 2 * 66 * 256 * 4096 * 4096 / 740e12)


def test_what_rounds_leave_is_shared() -> None:
    """80 pairs of tiles of 200 steps: 66 of them at a time, and 14 by 56 pairs of SMs."""
    text = GEMM.replace("N: 4096, K: 4096", "N: 5120, K: 12800")
    own = predict(compile_kernel(kernel(text)).plan, {"M": 1024}, 1, H200).own
    last = 590 + (56 / 66 - 0.5) * 2 * (750 - 590)
    assert own == pytest.approx((5.4 + 200 * 0.75 + 50 * last / 1000 + 7.5 + 2) * US)


@pytest.mark.parametrize(
    ("m", "n", "k", "us"),
    [
        (129, 4096, 4096, 20.6),
        (512, 8192, 8192, 102.0),
        (768, 8192, 8192, 165.3),
        (256, 4096, 14336, 64.7),
        (160, 5120, 12800, 58.8),
        (1024, 5120, 12800, 218.0),
        (384, 14336, 4096, 91.4),
        (1024, 14336, 4096, 194.1),
        (4096, 4096, 4096, 213.6),
        (8192, 8192, 4096, 841.1),
        (16384, 8192, 16384, 6413.0),
    ],
)
def test_products_as_measured(m: int, n: int, k: int, us: float) -> None:
    """On one H200, hot, on which cuBLAS takes as much longer than elsewhere."""
    text = GEMM.replace("N: 4096, K: 4096", f"N: {n}, K: {k}")
    own = predict(compile_kernel(kernel(text)).plan, {"M": m}, 1, H200).own
    assert own == pytest.approx(us * US, rel=0.15)


def test_stores_of_some_sms() -> None:
    rates = {sms: H200.stores(sms).rate for sms in (2, 8, 16, 74, 132)}
    assert rates == pytest.approx({2: 338e9 / 8, 8: 169e9, 16: 338e9, 74: 353e9, 132: 368e9})
    assert H200.stores(132) == H200.transfers[Transfer.REGISTER]


@pytest.mark.parametrize(("comm_sms", "rounds"), [(8, 33), (66, 62)])
def test_sms_that_communicate_do_not_multiply(comm_sms: int, rounds: int) -> None:
    """2048 pairs of tiles, 66 or fewer at a time; each time two are left."""
    text = (SPECS / "gemm_rs.yaml").read_text()
    of_all = predict(compile_kernel(kernel(text)).plan, {"M": 32768}, 2, H200)
    plan = compile_kernel(kernel(f"{text}overlap: {{comm_sms: {comm_sms}}}\n")).plan
    some = predict(plan, {"M": 32768}, 2, H200)
    for own, full in ((of_all.own, 31), (some.own, rounds)):
        assert own == pytest.approx((5.4 + 64 * (full * 0.75 + 0.59)) * US)
    assert some.sent / of_all.sent == pytest.approx(368e9 / H200.stores(comm_sms).rate)
    assert (some.product, some.communication) == (of_all.product, of_all.communication)


def test_the_bound() -> None:
    p = predicted("ag_gemm", 8192)
    assert p.communication == pytest.approx(306 * US)  # 64 MiB
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
        ("gemm_rs", 129, 2, "not worth fusing: tiles do not fill the SMs, so its product alone takes 32 us"),
        ("gemm_rs", 1, 2, "worth fusing"),
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


def test_a_residual_is_read_too() -> None:
    """Where memory is the limit; after a sum only the rows that a rank has."""

    def both(text: str, shard: str, world: int) -> list[Prediction]:
        added = text.replace("true], out", "true], residual: r, out")
        added = added.replace("tensors:\n", f"tensors:\n  r: {{shape: [M, N], dtype: bf16{shard}}}\n")
        return [predict(compile_kernel(kernel(t)).plan, {"M": 32768}, world, H200) for t in (text, added)]

    plain, added = both(GEMM.replace("K: 4096", "K: 64"), "", 1)
    assert added.own - plain.own == pytest.approx(32768 * 4096 * 2 / H200.memory)
    plain, added = both(RS, ", shard: {axis: 0}", 2)
    assert (added.own, added.sent) == (plain.own, plain.sent)
    rounds = -(-256 * 16 // H200.sms)  # of tiles, in the last of which nothing is left to hide it
    assert added.fused - plain.fused == pytest.approx(16384 * 4096 * 2 / H200.memory / rounds)


def test_rows_that_are_kept_are_read_and_written_once_more() -> None:
    text = (SPECS / "ag_gemm.yaml").read_text().replace("N: 4096", "N: 64").replace("[c]", "[c, a_full]")
    m, n, k = 32768, 64, 8192
    own = predict(compile_kernel(kernel(text)).plan, {"M": m}, 2, H200).own
    assert own == pytest.approx(H200.around + 2 * (m * k + n * k + m * n + 2 * m * k) / H200.memory)


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


def test_what_a_call_gathers_by() -> None:
    plan = compile_kernel(shipped("ag_gemm")).plan
    assert isinstance(plan, ProductPlan)
    pushed, copied = (predict(plan, {"M": m}, 2, H200) for m in (4094, 4095))  # K = 8192: 2048 rows of a rank
    assert (pushed.transfer, copied.transfer) == (Transfer.REGISTER, Transfer.COPY_ENGINE)
    for p in (pushed, copied):
        rate = H200.transfers[p.transfer or Transfer.TMA]
        assert p.sent == pytest.approx(rate.seconds((2048 if p is copied else 2047) * 8192 * 2))
    assert predict(plan, {"M": 8188}, 4, H200).transfer is Transfer.REGISTER
    assert predict(plan, {"M": 8192}, 1, H200).transfer is None


def test_where_both_gather_alike() -> None:
    """Copies are faster from about the size on from which they are chosen."""
    registers, engine = (H200.transfers[by] for by in (Transfer.REGISTER, Transfer.COPY_ENGINE))
    assert engine.seconds(COPIES_LEAST / 4) > registers.seconds(COPIES_LEAST / 4) * 1.3
    assert engine.seconds(COPIES_LEAST * 2) < registers.seconds(COPIES_LEAST * 2)


@pytest.mark.parametrize(
    ("m", "n", "k", "us"),
    [
        (1, 4032, 4104, 11.6),
        (128, 4096, 4160, 13.1),
        (2048, 2048, 1024, 15.7),
        (4096, 4096, 2048, 96),
        (1, 5120, 12800, 37.6),
        (128, 5120, 12800, 43.2),
    ],
)
def test_products_of_the_library_as_measured(m: int, n: int, k: int, us: float) -> None:
    """On both sides of the threshold of few rows the same."""
    for name, text in (("gemm", GEMM), ("gemm_ar", GEMM_AR)):
        spec = re.sub("N: .*, K: [0-9]+", f"N: {n}, K: {k if name == 'gemm' else 2 * k}", text)
        p = predict(compile_kernel(kernel(spec)).plan, {"M": m}, 1 if name == "gemm" else 2, H200)
        assert p.apart - p.communication == pytest.approx(us * US, rel=0.1)


def test_our_own_products_as_measured() -> None:
    """Of one round of tiles, and of few rows."""
    small = GEMM.replace("N: 4096, K: 4096", "N: 2048, K: 1024")
    assert predict(compile_kernel(kernel(small)).plan, {"M": 2048}, 1, H200).fused == pytest.approx(
        17.3 * US, rel=0.05
    )
    narrow = GEMM_AR.replace("K: 8192", "K: 8320")
    for m, us in ((1, 17.7), (128, 25.2)):
        p = predict(compile_kernel(kernel(narrow)).plan, {"M": m}, 2, H200)
        assert p.fused == pytest.approx(us * US, rel=0.03)


@pytest.mark.parametrize("name", ["gemm", "ag_gemm", "ag_gemm_silu_mul", "gemm_rs", "gemm_ar"])
def test_times_grow_with_the_rows(name: str) -> None:
    """And those of the library have no step, however we compute."""
    plan = compile_kernel(shipped(name)).plan
    rows = sorted({*range(1, 300), *(int(1.01**i) for i in range(575, 1045))})
    found = [predict(plan, {"M": m}, 1 if name == "gemm" else 2, H200) for m in rows]
    for before, after in pairwise(found):
        assert before.product <= after.product <= before.product * 1.2
        assert before.communication <= after.communication <= before.communication * 1.2
    assert max(p.speed_up for p in found) < 2
    for own in ([p.own for p in found if p.sizes["M"] <= 128], [p.own for p in found if p.sizes["M"] > 128]):
        assert own == sorted(own)


@pytest.mark.parametrize("m", [1, 8])
def test_no_product_takes_no_time(m: int) -> None:
    text = GEMM_AR.replace("N: 4096, K: 8192", "N: 8, K: 16")
    p = predict(compile_kernel(kernel(text)).plan, {"M": m}, 2, H200)
    assert p.product >= 2 * US
    assert p.speed_up < 2


DECODE = (SPECS / "gemm_ar.yaml").read_text().replace("N: 4096, K: 8192", "N: 5120, K: 25600")


@pytest.mark.parametrize(
    ("m", "us", "library"), [(1, 39.8, 37.3), (8, 40.3, 38.1), (32, 43.3, 37.5), (128, 53.2, 42.3)]
)
def test_few_rows_as_measured(m: int, us: float, library: float) -> None:
    p = predict(compile_kernel(kernel(DECODE)).plan, {"M": m}, 2, H200)
    assert p.fused == pytest.approx(us * US, rel=0.03)
    assert p.apart - p.communication == pytest.approx(library * US, rel=0.04)
    assert p.speed_up > (1 if m > 32 else 1.1)


def test_few_rows_of_many_ranks_and_of_one() -> None:
    plan = compile_kernel(kernel(DECODE)).plan
    assert isinstance(plan, ProductPlan)
    alone = predict(plan, {"M": 8}, 1, H200)
    assert (alone.sent, alone.communication, alone.transfer) == (0, 0, None)
    assert alone.fused == alone.own
    few, many = (predict(plan, {"M": m}, 8, H200) for m in (18, 19))  # 7 peers: up to 128 / 7
    assert few.sent == pytest.approx(4.4 * US + 7 * 18 * 5120 * 4 / 336e9)
    assert many.sent == pytest.approx(7 * 3 * 5120 * (4 + 2) / 368e9)  # and the sums


def test_a_kernel_that_is_faster_than_libraries_can_exceed_the_bound() -> None:
    """The report says what the bound is relative to."""
    p = predict(compile_kernel(shipped("gemm_ar")).plan, {"M": 1}, 8, H200)
    assert p.speed_up > p.bound
    report = explain_kernel(compile_kernel(shipped("gemm_ar")), {"M": 1}, 8)
    caption = str(report.to_table().renderables[1].caption)
    assert "bound: the gain if the shorter of product and comm. took no time; a kernel that" in caption
    assert "faster than they do can exceed it." in caption
    little = replace(p, communication=0.02 * p.product, own=p.product, fused=p.apart)
    assert little.verdict == "not worth fusing: hiding the one behind the other gains at most 2.0%"


def test_the_table_says_what_sends() -> None:
    def caption(name: str) -> str:
        times = explain_kernel(compile_kernel(shipped(name))).to_table().renderables[1]
        return str(times.caption)

    said = "The copy engine sends at M 8,192; M 32,768, and registers at the rest."
    assert (said in caption("ag_gemm"), "copy engine" in caption("gemm_rs")) == (True, False)
    about = explain_kernel(compile_kernel(shipped("ag_gemm"))).to_json()["predictions"]
    assert [p["transfer"] for p in about] == ["register"] * 3 + ["copy_engine"] * 2
