"""What only a GPU has: streams, graphs and the current device. Uses the driver through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from driver import Driver
from expected import Expected
from prompts import random_prompt

CAPTURE_GLOBAL = 0


@pytest.fixture
def driver(model: Any) -> Iterator[Driver]:
    if not model.info.cuda:
        pytest.skip("this library runs on the host")
    driver = Driver()
    context = ctypes.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    driver.call("cuCtxSetCurrent", context)
    yield driver
    driver.call("cuDevicePrimaryCtxRelease_v2", 0)


@pytest.fixture
def both_workers(driver: Driver, make_model: Callable[..., Any]) -> tuple[Any, Any]:
    """A model that the cluster worker runs, and one that the general worker runs."""
    fastest = make_model(workers=0)
    sms = driver.multiprocessors()
    if fastest.info.workers == sms:  # clusters leave some of them out
        pytest.skip("the general worker runs this model here")
    return fastest, make_model(workers=sms)


def test_the_workers_agree(
    both_workers: tuple[Any, Any], spec: dict[str, Any], expect: Callable[..., Expected]
) -> None:
    """Prompts that end around the ends of one, two and three pages, read in chunks and row by row."""
    page, context = spec["runtime"]["kv_page"], spec["runtime"]["context"]
    lengths = {1, 2, page - 1, *(n * page + more for n in (1, 2, 3) for more in (0, 1))}
    prompts = [random_prompt(spec, length) for length in sorted(n for n in lengths if n < context)]
    expected = [expect(prompt) for prompt in prompts]
    last = Expected.join([rows.rows(slice(-1, None)) for rows in expected])
    for score_prompt in (False, True):
        logits, scores = [], []
        for model in both_workers:
            kept, logprobs = [], []
            for prompt in prompts:
                (result,) = model.generate([prompt], max_new_tokens=1, score_prompt=score_prompt)
                kept.append(model.logits(0))
                logprobs.append(result.logprobs[1 : len(prompt)])
            logits.append(np.stack(kept))
            scores.append(np.concatenate(logprobs))
        last.check_two_logits(*logits)
        if score_prompt:
            Expected.join([rows.rows(slice(0, -1)) for rows in expected]).check_two_logprobs(*scores)


def test_the_workers_agree_on_batches(
    both_workers: tuple[Any, Any], spec: dict[str, Any], expect: Callable[..., Expected]
) -> None:
    """Sequences of different lengths, so that a member's spans are of several rows."""
    runtime = spec["runtime"]
    longest = min(3 * runtime["kv_page"] + 1, runtime["context"] - 1)
    prompts = [
        random_prompt(spec, 1 + (s * 37 + longest - 1) % longest, seed=s) for s in range(runtime["batch"])
    ]
    logits = []
    for model in both_workers:
        model.generate(prompts, max_new_tokens=1)
        logits.append(np.stack([model.logits(s) for s in range(len(prompts))]))
    last = Expected.join([expect(prompt, first=len(prompt) - 1) for prompt in prompts])
    last.check_two_logits(*logits)


def test_a_stream_of_the_caller(driver: Driver, model: Any, spec: dict[str, Any]) -> None:
    prompt = random_prompt(spec, 9)
    (expected,) = model.generate([prompt], max_new_tokens=7)
    stream = driver.stream()
    model.start([prompt], max_new_tokens=7, stream=stream.value)
    model.wait()
    np.testing.assert_array_equal(model.result(0).tokens, expected.tokens)
    driver.synchronize(stream)
    driver.call("cuStreamDestroy_v2", stream)


@pytest.mark.parametrize("rows_more", [-1, 3])  # a prompt of one step, and one that is read ahead
def test_a_graph_replays_its_request(
    driver: Driver, model: Any, spec: dict[str, Any], rows_more: int
) -> None:
    """A captured call decodes its own request at each replay, also after calls with other requests."""
    length = min(spec["runtime"]["rows"] + rows_more, spec["runtime"]["context"] - 7)
    captured, other = random_prompt(spec, length), random_prompt(spec, length + 5, seed=1)
    (expected,) = model.generate([captured], max_new_tokens=7)
    stream, graph, executable = driver.stream(), ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuStreamBeginCapture_v2", stream, CAPTURE_GLOBAL)
    model.start([captured], max_new_tokens=7, stream=stream.value)
    driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    driver.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    for _ in range(3):
        model.generate([other], max_new_tokens=3)
        driver.call("cuGraphLaunch", executable, stream)
        driver.synchronize(stream)
        model.wait()
        np.testing.assert_array_equal(model.tokens(0)[0], expected.tokens)
    driver.call("cuGraphExecDestroy", executable)
    driver.call("cuGraphDestroy", graph)
    driver.call("cuStreamDestroy_v2", stream)


def test_two_models_on_two_streams(
    driver: Driver, model: Any, make_model: Callable[..., Any], spec: dict[str, Any]
) -> None:
    """Both are enqueued before either ends; kernels that do not fit together run one after the other."""
    prompts = [random_prompt(spec, 5 + s, seed=s) for s in range(2)]
    expected = [model.generate([p], max_new_tokens=20)[0].tokens for p in prompts]
    models, streams = [make_model() for _ in range(2)], [driver.stream() for _ in range(2)]
    for _ in range(10):
        for one, stream, prompt in zip(models, streams, prompts, strict=True):
            one.start([prompt], max_new_tokens=20, stream=stream.value)
        for one, tokens in zip(models, expected, strict=True):
            one.wait()
            np.testing.assert_array_equal(one.tokens(0)[0], tokens)
    for stream in streams:
        driver.call("cuStreamDestroy_v2", stream)


def test_the_current_device_is_kept(driver: Driver, model: Any) -> None:
    before, after = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuCtxGetCurrent", ctypes.byref(before))
    model.generate([[1]], max_new_tokens=1)
    model.logits(0)
    driver.call("cuCtxGetCurrent", ctypes.byref(after))
    assert before.value == after.value


def test_device_that_does_not_exist(driver: Driver, make_model: Callable[..., Any], binding: Any) -> None:
    with pytest.raises(binding.ModelError, match=r"options.device is 99, expected -1 .* to \d+"):
        make_model(device=99)
