"""Creating, destroying, and several models and threads in one process."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from prompts import random_prompt

MEGABYTE = 1 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_things() -> tuple[int, int]:
    """Open file descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


class DeviceMemory:
    """Free memory of the current GPU, by the driver."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        assert self.driver.cuInit(0) == 0
        assert self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.driver.cuCtxSetCurrent(context) == 0

    def free(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        assert self.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
        return free.value


def test_create_and_destroy_100_times(
    binding: ModuleType, library: Any, weights: Path, spec: dict[str, Any]
) -> None:
    def cycle() -> None:
        with binding.Model(weights, library=library, workers=3) as model:
            model.generate([random_prompt(spec, 3)], max_new_tokens=2)

    for _ in range(20):
        cycle()
    device = DeviceMemory() if is_cuda(binding, library, weights) else None
    before, things = resident_bytes(), open_things()
    device_before = device.free() if device else 0
    for _ in range(100):
        cycle()
    assert resident_bytes() - before < 4 * MEGABYTE
    assert open_things() == things
    if device:
        assert device_before - device.free() < 4 * MEGABYTE


def is_cuda(binding: ModuleType, library: Any, weights: Path) -> bool:
    with binding.Model(weights, library=library, workers=1) as model:
        return bool(model.info.cuda)


def test_failed_create_leaks_nothing(binding: ModuleType, library: Any, tmp_path: Path) -> None:
    things = open_things()
    for _ in range(50):
        with pytest.raises(binding.ModelError, match="not a regular file"):
            binding.Model(tmp_path, library=library)
    assert open_things() == things


def test_destroy_waits_for_a_call(
    binding: ModuleType, library: Any, weights: Path, spec: dict[str, Any]
) -> None:
    for _ in range(5):
        model = binding.Model(weights, library=library)
        model.start(
            [random_prompt(spec, 2)] * spec["runtime"]["batch"],
            max_new_tokens=spec["runtime"]["context"] // 2,
        )
        model.close()
        model.close()


def test_a_model_that_is_dropped_is_closed(
    binding: ModuleType, library: Any, weights: Path, spec: dict[str, Any]
) -> None:
    """Also one that is part of a cycle, or in the middle of a call."""
    prompt = [random_prompt(spec, 3)]

    def drop(*, in_a_cycle: bool, running: bool) -> None:
        model = binding.Model(weights, library=library, workers=3)
        model.generate(prompt, max_new_tokens=2)
        if in_a_cycle:
            model.itself = model
        if running:
            model.start(prompt, max_new_tokens=spec["runtime"]["context"] // 2)

    for _ in range(3):
        drop(in_a_cycle=False, running=True)  # what the first ones open stays open
    things = open_things()
    with binding.Model(weights, library=library, workers=3) as model:
        model.generate(prompt, max_new_tokens=2)
        assert model.info.cuda or open_things()[1] > things[1]
    for in_a_cycle, running in itertools.product((False, True), repeat=2):
        drop(in_a_cycle=in_a_cycle, running=running)
        gc.collect()
        assert open_things() == things


LEFT_OPEN = """
import sys, threading
sys.path[:0] = sys.argv[1:3]
import {name}, prompts, project
prompt = [prompts.random_prompt(project.MODEL, 3)]
model, waited = ({name}.Model(sys.argv[3], library=sys.argv[4]) for _ in range(2))
for each in (model, waited):
    each.itself = each
    each.start(prompt, max_new_tokens=project.MODEL["runtime"]["context"] // 2)
threading.Thread(target=waited.wait, daemon=True).start()
print("done")
"""


def test_a_process_ends_with_models_open_and_calls_running(
    library: Any, weights: Path, spec: dict[str, Any]
) -> None:
    tests = Path(__file__).parent
    program = LEFT_OPEN.format(name=spec["name"])
    folders = [str(tests.parent / "python"), str(tests)]
    done = subprocess.run(
        [sys.executable, "-c", program, *folders, str(weights), str(library.path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_two_models_from_two_threads(make_model: Callable[..., Any], spec: dict[str, Any]) -> None:
    prompts = [[random_prompt(spec, 5 + t, seed=t)] for t in range(2)]
    alone = make_model(workers=3)
    expected = [alone.generate(p, max_new_tokens=10)[0].tokens for p in prompts]
    models = [make_model(workers=2) for _ in range(2)]
    failures: list[str] = []

    def run(t: int) -> None:
        for i in range(10):
            (result,) = models[t].generate(prompts[t], max_new_tokens=10)
            if not np.array_equal(result.tokens, expected[t]):
                failures.append(f"thread {t}, call {i}: {result.tokens}")

    threads = [threading.Thread(target=run, args=(t,)) for t in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_tokens_from_another_thread_while_it_runs(model: Any, spec: dict[str, Any]) -> None:
    """What a poller sees only grows, and at the end is everything."""
    prompt = random_prompt(spec, 4)
    new = spec["runtime"]["context"] // 2
    seen: list[list[int]] = [[]]
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            seen.append(model.tokens(0)[0].tolist())

    model.start([prompt], max_new_tokens=new)
    poller = threading.Thread(target=poll)
    poller.start()
    model.wait()
    stop.set()
    poller.join()
    final = model.tokens(0)[0].tolist()
    assert len(final) == new
    for earlier, later in itertools.pairwise(seen):
        assert len(earlier) <= len(later)
    for tokens in seen:
        assert tokens == final[: len(tokens)]


def in_a_fork(body: Callable[[], object]) -> int:
    """What `body` returns in a fork of this process, 1 if it raises, -SIGALRM if it does not come back."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        code = 1
        try:
            code = int(bool(body()))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_cannot_use_a_model_and_may_close_it(
    make_model: Callable[..., Any], binding: ModuleType, spec: dict[str, Any]
) -> None:
    """The workers stay behind in the process that made the model: waiting for them would never end."""
    model = make_model(workers=2)
    prompt = [random_prompt(spec, 3)]
    (expected,) = model.generate(prompt, max_new_tokens=3)

    def call_all() -> bool:
        calls: list[Callable[[], Any]] = [
            lambda: model.start(prompt, max_new_tokens=3),
            model.wait,
            lambda: model.tokens(0),
            lambda: model.logits(0),
            lambda: model.result(0),
        ]
        for call in calls:
            with pytest.raises(binding.ModelError, match="this is a fork of it"):
                call()
        return False

    assert in_a_fork(call_all) == 0
    assert in_a_fork(model.close) == 0
    (result,) = model.generate(prompt, max_new_tokens=3)
    assert np.array_equal(result.tokens, expected.tokens)


def test_last_error_belongs_to_the_thread(model: Any, binding: ModuleType) -> None:
    sentences: list[bytes] = []

    def fail() -> None:
        assert model.library.wait(None) == binding.Status.INVALID_ARGUMENT
        sentences.append(model.library.last_error())

    assert model.library.logits(model._model, 99, None) == binding.Status.INVALID_ARGUMENT
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert sentences == [b"model is NULL"]
    assert b"sequence is 99" in model.library.last_error()


def test_info(model: Any, spec: dict[str, Any], workers: int) -> None:
    info, runtime = model.info, spec["runtime"]
    assert (info.batch, info.context, info.rows) == (runtime["batch"], runtime["context"], runtime["rows"])
    assert (info.vocab, info.kv_page, info.weight_bytes) == (
        spec["vocab"],
        runtime["kv_page"],
        spec["weight_bytes"],
    )
    pages = -(-runtime["context"] // runtime["kv_page"]) * runtime["batch"]
    assert info.kv_tokens == pages * runtime["kv_page"]
    attention = [op["constants"] for op in spec["ops"] if op["kind"] == "attention"]
    assert info.kv_bytes == sum(2 * c["kv_heads"] * c["head"] * 2 * info.kv_tokens for c in attention)
    if workers or not info.cuda:
        assert info.workers == (workers or len(os.sched_getaffinity(0)))
