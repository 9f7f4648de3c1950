"""What may move the bytes of a kernel: what is expected instead of what is not there can be had."""

from __future__ import annotations

import pytest

from kgen.diagnostics import SpecError
from kgen.frontend.kernel.build import build_kernel
from kgen.plan.kernel.runtime import refusals
from kgen.spec.load import parse_kernel_spec
from tests.frontend.test_kernel_errors import errors_of
from tests.kernels import AG, AR, COLLECTIVES, IN_NETWORK, RS

LOOSE = "deterministic: false\n"
ASKED = {"ag": AG, "rs": RS, "ar": AR, **COLLECTIVES, "loose rs": RS + LOOSE}
ASKED |= {f"loose {name}": COLLECTIVES[name] + LOOSE for name in ("gather", "scatter")}
ASKED["loose all_reduce"] = IN_NETWORK.replace("overlap: {transfer: multimem}\n", "")


@pytest.mark.parametrize("transfer", ["copy_engine, schedule: intra_sm", "copy_engine", "multimem", "tma"])
@pytest.mark.parametrize("name", ASKED)
def test_a_transfer_that_is_expected_can_be_generated(name: str, transfer: str) -> None:
    """Whoever does what the error says gets a kernel."""

    def expected(asked: str) -> list[str]:
        try:
            graph = build_kernel(parse_kernel_spec(f"{ASKED[name]}overlap: {{{asked}}}\n"))
        except SpecError as error:
            return [d.expected for d in error.diagnostics if d.expected not in ("no schedule", "2..8")]
        assert refusals(graph) == []
        return []

    for said in expected(f"transfer: {transfer}"):
        for way in said.removeprefix("no schedule, or ").split(" or "):
            assert expected(f"transfer: {way}") == []


@pytest.mark.parametrize(
    ("text", "transfer", "expected"),
    [
        (RS + LOOSE, "multimem", "register or tma"),
        (AR + LOOSE, "multimem", "register or tma"),
        (COLLECTIVES["gather"] + LOOSE, "multimem", "register"),
        (COLLECTIVES["scatter"] + LOOSE, "multimem", "register"),
        (COLLECTIVES["gather"], "tma", "register"),
        (COLLECTIVES["all_reduce"], "tma", "register"),
        (COLLECTIVES["all_reduce"] + LOOSE, "tma", "register"),  # the world may be 1
        (ASKED["loose all_reduce"], "tma", "register or multimem"),
    ],
)
def test_transfers_that_are_not_there_yet(text: str, transfer: str, expected: str) -> None:
    (error,) = errors_of(f"{text}overlap: {{transfer: {transfer}}}\n")
    assert (error.message, error.expected) == (f"transfer: {transfer} is not there yet", expected)
