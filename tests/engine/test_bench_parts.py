"""The parts of the bench whose answers are known: sizes, times on a made clock, verdicts, other programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kgen.frontend.build import build_graph
from kgen.passes.pipeline import compile_graph
from kgen.paths import shipped_spec
from kgen.render.project import render_project
from kgen.spec.load import load_spec

from .bench_modules import bench_module

CASES, CHECK, DECODE, MACHINE, MEASURE, PEER, TABLE = (
    bench_module(name) for name in ("cases", "check", "decode", "machine", "measure", "peer", "table")
)


def description(spec: str) -> dict[str, Any]:
    path = shipped_spec(spec)
    assert path is not None
    model: dict[str, Any] = json.loads(
        render_project(compile_graph(build_graph(load_spec(path))))["model.json"]
    )
    return model


@pytest.mark.parametrize(
    ("spec", "batch", "weights", "kv"),
    [
        # 2 bytes a parameter, an embedding row a token; layers x 2 x KV heads x head x 2 bytes of cache
        ("llama-3.2-1b", 1, 2 * 1_235_814_400 + 2 * 2048, 16 * 2 * 8 * 64 * 2),
        ("llama-3.2-1b", 16, 2 * 1_235_814_400 + 16 * 2 * 2048, 16 * 2 * 8 * 64 * 2),
        # its embedding is no matrix of a product, so most of it is never read
        ("qwen3-8b", 1, 2 * (8_190_735_360 - 151_936 * 4096) + 2 * 4096, 36 * 2 * 8 * 128 * 2),
    ],
)
def test_bytes_of_a_step(spec: str, batch: int, weights: int, kv: int) -> None:
    model = description(spec)
    assert CASES.weight_bytes(model, batch) == weights
    assert CASES.kv_bytes(model, batch, 1024) == kv * batch * 1024
    assert CASES.step_bytes(model, batch, 10.5) == weights + kv * batch * 10.5


@pytest.mark.parametrize(
    ("case", "request_", "context"),
    [
        ((1, 1024), (1, 960, 128), 1024),
        ((16, 64), (16, 1, 126), 64),  # no prompt is shorter than a token, so fewer tokens follow it
        ((32, 8192), (16, 1984 + 1, 64), 2017),  # at the end of the model's context of 2048, and its batch
        ((1, 1), (1, 1, 2), 2),  # attention reads the token of its own step
    ],
)
def test_a_request_lies_around_the_context(
    case: tuple[int, int], request_: tuple[int, int, int], context: float
) -> None:
    tokens = 64 if case[1] == 8192 else 128
    request = CASES.fit(CASES.Case(*case), tokens, 16, 2048)
    assert (request.batch, request.prompt, request.tokens) == request_
    # The steps after the first token read prompt + 1, ..., prompt + tokens - 1 tokens.
    read = [request.prompt + i for i in range(1, request.tokens)]
    assert request.context == sum(read) / len(read) == context
    assert request.prompt + request.tokens <= 2048 + 1


class Model:
    """Answers every call with a token a step, and with other logits in the calls of `other`."""

    def __init__(self, other: tuple[int, ...] = ()) -> None:
        self.info = SimpleNamespace(vocab=331, context=100)
        self.calls: list[tuple[list[list[int]], int]] = []
        self.other = other

    def start(self, prompts: list[list[int]], max_new_tokens: int) -> None:
        self.calls.append((prompts, max_new_tokens))

    def wait(self) -> None:
        pass

    def tokens(self, sequence: int) -> tuple[np.ndarray, str]:
        return np.arange(self.calls[-1][1]) + 10 * sequence, "LENGTH"

    def logits(self, sequence: int) -> np.ndarray:
        return np.float32([sequence, len(self.calls) in self.other])


def run_on_clock(monkeypatch: pytest.MonkeyPatch, model: Model, durations: list[float]) -> Any:
    """`measure` with calls that take these seconds: one and 3 for the first token, one, and 3 pairs."""

    def clock() -> Iterator[float]:
        for duration in durations:
            yield 0.0
            yield duration

    with monkeypatch.context() as patch:
        patch.setattr(MEASURE.time, "perf_counter", clock().__next__)
        return MEASURE.measure(model, CASES.Request(batch=2, prompt=3, tokens=11), 3)


def test_the_median_of_pairs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    timing = run_on_clock(monkeypatch, model, [9, 5, 1, 4, 9, 1, 1.5, 2, 2.1, 1, 1.2])
    assert timing.first_token_ms == 4000
    assert timing.steps == pytest.approx([10_000, 20_000, 50_000])
    assert (timing.step_us, timing.changed) == (pytest.approx(20_000), 0)
    assert [(len(prompts[0]), new) for prompts, new in model.calls] == [(8, 1)] * 4 + [(3, 11), (3, 1)] + [
        (3, 11),
        (3, 1),
    ] * 2 + [(3, 11)]
    assert timing.sequences == [[0, 7, 14, *range(10)], [31, 38, 45, *range(10, 20)]]
    row = DECODE.figures(description("tiny"), CASES.Request(2, 3, 11), timing, {"tb_per_second": 1e-3})
    size = CASES.step_bytes(description("tiny"), 2, 8.5)
    assert row["bytes"] == size
    assert row["tb_per_second"] == pytest.approx(size / 0.02 / 1e12)
    assert row["ceiling_share"] == pytest.approx(size / 0.02 / 1e9)
    assert row["floor_us"] == pytest.approx(size / 1e9 * 1e6)
    assert row["tokens_per_second"] == pytest.approx(100)


def test_a_difference_that_is_not_positive_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = run_on_clock(monkeypatch, Model(), [9, 5, 1, 4, 9, 1, 1.5, 2, 2, 2, 1])
    row = DECODE.figures(description("tiny"), CASES.Request(2, 3, 11), timing, {"tb_per_second": 1e-3})
    names = ("step_us", "tokens_per_second", "tb_per_second", "ceiling_share")
    assert [row[name] for name in names] == [None] * 4
    assert [TABLE.figure(value, 2) for value in (None, 1.25)] == ["-", "1.25"]


def test_a_call_that_differs_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # The calls of several tokens are the 5th, and after it the 7th, 9th and 11th.
    timing = run_on_clock(monkeypatch, Model(other=(7, 11)), [1.0] * 11)
    assert timing.changed == 2
    assert TABLE.is_wrong({"changed": timing.changed})
    assert not TABLE.is_wrong({"changed": 0, "logits_correct": True})
    assert TABLE.is_wrong({"changed": 0, "logits_correct": False})
    assert TABLE.is_wrong({"changed": 0, "endurance": {"changed": 1}})


@pytest.mark.parametrize(
    ("steps", "calls", "tokens"), [(100, 10, 10), (101, 10, 11), (5000, 52, 98), (1, 2, 1)]
)
def test_endurance(steps: int, calls: int, tokens: int) -> None:
    model = Model(other=(2,))
    run = MEASURE.endure(model, CASES.Request(batch=1, prompt=3, tokens=11), steps)
    assert [new for _, new in model.calls] == [tokens] * calls
    assert (run["steps"], run["calls"], run["changed"]) == (calls * tokens, calls, 1)
    assert run["steps"] >= steps


def test_the_verdict_on_logits() -> None:
    exact, rounded = np.float32([3, 4]), np.float32([3, 4.5])
    judge = CHECK.Judge(lambda tokens: (exact, rounded), None)
    for error, correct in ((0.7, True), (0.8, False), (float("nan"), False)):
        row = CHECK.check_logits(judge, [[1], [2]], [np.float32([3, 4 + error])] * 2)
        assert row["logits_correct"] is correct
        assert row["logits_error_bf16"] == pytest.approx(0.1)
    assert row["sequences_checked"] == 2


def test_a_slow_reference_judges_the_first_and_the_last() -> None:
    seen: list[list[int]] = []

    def logits(tokens: list[int]) -> tuple[np.ndarray, np.ndarray]:
        seen.append(tokens)
        return np.float32([1, tokens[0]]), np.float32([1, tokens[0] + 1])

    sequences = [[s] for s in range(5)]
    row = CHECK.check_logits(CHECK.Judge(logits, 2), sequences, [np.float32([1, s]) for s in range(5)])
    assert seen == [[0], [4]]
    assert (row["logits_error"], row["sequences_checked"]) == (0, 2)


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_read_ceiling_comes_from_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = program(tmp_path / "good", """echo '{"tb_per_second": 4.64, "method": "bulk copies"}'""")
    assert MACHINE.read_ceiling(good) == {"tb_per_second": 4.64, "method": "bulk copies"}
    with pytest.raises(MACHINE.Unknown, match="none is not built"):
        MACHINE.read_ceiling(tmp_path / "none")
    with pytest.raises(MACHINE.Unknown, match="bad failed: no GPU"):
        MACHINE.read_ceiling(program(tmp_path / "bad", "echo no GPU >&2; exit 1"))
    monkeypatch.setattr(MACHINE, "CEILING_SECONDS", 0.2)
    with pytest.raises(MACHINE.Unknown, match=r"slow took more than 0\.2 s"):
        MACHINE.read_ceiling(program(tmp_path / "slow", "exec sleep 5"))


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("echo slow >&2; echo out of memory >&2; exit 1", "out of memory"),
        ("exec sleep 5", "it took more than 1.0 s"),
    ],
)
def test_what_pytorch_measured_before_it_failed_is_kept(
    ending: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""echo '{{"step_us": 12.5}}'; echo "$NCCL_NVLS_ENABLE $@" > {tmp_path}/seen; {ending}"""
    monkeypatch.setattr(PEER.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", text)))
    monkeypatch.setattr(PEER, "SECONDS_PER_CASE", 0.5)
    assert PEER.torch_steps([(1, 64), (16, 1024)]) == ([12.5], reason)
    multicast, script, *cases = (tmp_path / "seen").read_text().split()
    assert (multicast, Path(script).name, cases) == ("0", "torch_decode.py", ["1x64", "16x1024"])


def test_pytorch_that_measured_everything_or_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PEER.importlib.util, "find_spec", lambda name: name)
    text = """echo a warning >&2; echo '{"step_us": 12.5}'"""
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", text)))
    assert PEER.torch_steps([(1, 64)]) == ([12.5], "")
    monkeypatch.setattr(PEER.importlib.util, "find_spec", lambda name: None)
    assert PEER.torch_steps([(1, 64)]) == ([], "it is not installed")


def test_summary() -> None:
    row = {"batch": 16, "context": 1024.0, "step_us": 800.04, "ceiling_share": 0.81234, "changed": 0}
    report = {"model": "m", "cases": [row | {"torch_ratio": 1.625, "logits_correct": True}]}
    assert TABLE.summary(report) == "m: 16x1024 800.0 us (81.2% of the ceiling), PyTorch x1.62"
    report = {"model": "m", "cases": [row | {"ceiling_share": None, "logits_correct": False}]}
    assert TABLE.summary(report) == "m: 16x1024 800.0 us, WRONG OUTPUT"
