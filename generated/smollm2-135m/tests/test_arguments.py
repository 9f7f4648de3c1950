"""Every bad argument is refused with a status and a sentence that names it, and changes nothing."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from prompts import random_prompt


class Raw:
    """Calls that bypass what the binding fills in."""

    def __init__(self, binding: ModuleType, model: Any) -> None:
        self.binding, self.model = binding, model
        self.library, self.handle = model.library, model._model
        self.prompt = (ctypes.c_int32 * 3)(1, 2, 0)

    def sequence(self, **fields: Any) -> Any:
        sequence = self.binding._Sequence(
            struct_bytes=ctypes.sizeof(self.binding._Sequence),
            prompt=self.prompt,
            prompt_length=3,
            max_new_tokens=2,
        )
        for name, value in fields.items():
            setattr(sequence, name, value)
        return sequence

    def refused(self, status: int, *words: str) -> None:
        assert self.binding.Status(status).name == "INVALID_ARGUMENT"
        sentence = self.library.last_error().decode()
        for word in words:
            assert word in sentence, sentence

    def generate(self, *sequences: Any, count: int | None = None) -> int:
        array = (self.binding._Sequence * max(len(sequences), 1))(*sequences)
        return self.library.generate(self.handle, array, len(sequences) if count is None else count, None)


@pytest.fixture
def raw(binding: ModuleType, model: Any) -> Raw:
    return Raw(binding, model)


def test_the_sequence_that_others_spoil_is_good(raw: Raw) -> None:
    raw.library.check(raw.generate(raw.sequence()))
    raw.model.wait()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("struct_bytes", 0, ["0", "expected"]),
        ("struct_bytes", 12, ["12", "expected"]),
        ("struct_bytes", 1 << 20, ["1048576", "expected"]),
        ("flags", 6, ["6"]),
        ("prompt", None, ["NULL"]),
        ("prompt_length", 0, ["0", "expected 1 to"]),
        ("max_new_tokens", 0, ["0", "expected 1 to"]),
        ("max_new_tokens", 0xFFFFFFFF, ["4294967295", "expected 1 to"]),
        ("stop_token_count", 17, ["17", "0 to 16"]),
        ("temperature", -0.5, ["-0.5"]),
        ("temperature", math.nan, ["nan"]),
        ("temperature", math.inf, ["inf"]),
        ("top_p", 1.5, ["1.5", "0 to 1"]),
        ("top_p", -0.25, ["-0.25"]),
        ("top_p", math.nan, ["nan"]),
    ],
)
def test_bad_field(raw: Raw, field: str, value: Any, words: list[str]) -> None:
    raw.refused(raw.generate(raw.sequence(**{field: value})), f"sequences[0].{field}", *words)


def test_second_sequence_is_named(raw: Raw, spec: dict[str, Any]) -> None:
    if spec["runtime"]["batch"] > 1:
        raw.refused(raw.generate(raw.sequence(), raw.sequence(top_p=2.0)), "sequences[1].top_p", "2")


@pytest.mark.parametrize("position", [0, 2])
@pytest.mark.parametrize("offset", [-1, 0])
def test_token_outside_the_vocabulary(raw: Raw, spec: dict[str, Any], position: int, offset: int) -> None:
    token = offset if offset < 0 else spec["vocab"]
    raw.prompt[position] = token
    raw.refused(
        raw.generate(raw.sequence()), f"sequences[0].prompt[{position}]", str(token), str(spec["vocab"] - 1)
    )


def test_bad_stop_tokens(raw: Raw, spec: dict[str, Any]) -> None:
    raw.refused(raw.generate(raw.sequence(stop_token_count=1)), "sequences[0].stop_tokens", "NULL")
    stops = (ctypes.c_int32 * 2)(1, spec["vocab"])
    status = raw.generate(raw.sequence(stop_tokens=stops, stop_token_count=2))
    raw.refused(status, "sequences[0].stop_tokens[1]", str(spec["vocab"]))


def test_too_long_for_the_context(raw: Raw, model: Any, binding: ModuleType, spec: dict[str, Any]) -> None:
    context = spec["runtime"]["context"]
    with pytest.raises(
        binding.ModelError, match=rf"sequences\[0\].prompt_length is {context + 1}, .*{context}"
    ):
        model.start([random_prompt(spec, context + 1)], max_new_tokens=1)
    with pytest.raises(binding.ModelError, match=r"sequences\[0\].max_new_tokens is 2, expected 1 to 1"):
        model.start([random_prompt(spec, context)], max_new_tokens=2)


def test_bad_count(raw: Raw, spec: dict[str, Any]) -> None:
    batch = spec["runtime"]["batch"]
    raw.refused(raw.generate(count=0), "count is 0", f"1 to {batch}")
    raw.refused(raw.generate(count=batch + 1), f"count is {batch + 1}", f"1 to {batch}")


def test_null_pointers(raw: Raw, binding: ModuleType) -> None:
    library, handle = raw.library, raw.handle
    one = ctypes.c_uint32()
    raw.refused(library.generate(handle, None, 1, None), "sequences is NULL")
    raw.refused(library.generate(None, None, 1, None), "model is NULL")
    raw.refused(library.wait(None), "model is NULL")
    raw.refused(library.get_info(handle, None), "info is NULL")
    raw.refused(library.get_info(None, None), "model is NULL")
    raw.refused(library.create(None, ctypes.byref(ctypes.c_void_p())), "options is NULL")
    raw.refused(library.create(ctypes.byref(binding._Options()), None), "model is NULL")
    raw.refused(library.logits(None, 0, None), "model is NULL")
    raw.refused(library.logprobs(None, 0, None, 0), "model is NULL")
    raw.refused(library.tokens(None, 0, 0, None, 0, one, one), "model is NULL")
    raw.library.check(raw.generate(raw.sequence()))
    raw.model.wait()
    raw.refused(library.tokens(handle, 0, 0, None, 4, one, one), "tokens is NULL")
    raw.refused(library.tokens(handle, 0, 0, None, 0, None, one), "count is NULL")
    raw.refused(library.tokens(handle, 0, 0, None, 0, one, None), "finish is NULL")
    raw.refused(library.logits(handle, 0, None), "logits is NULL")
    raw.refused(library.logprobs(handle, 0, None, 1), "logprobs is NULL")
    library.destroy(None)


def test_results_that_are_not_there(raw: Raw, spec: dict[str, Any]) -> None:
    raw.library.check(raw.generate(raw.sequence()))
    raw.model.wait()
    one = ctypes.c_uint32()
    room = (ctypes.c_float * (spec["runtime"]["context"] + 2))()
    raw.refused(raw.library.tokens(raw.handle, 1, 0, None, 0, one, one), "sequence is 1", "1 sequence")
    raw.refused(raw.library.logits(raw.handle, 7, room), "sequence is 7")
    raw.refused(raw.library.logprobs(raw.handle, 0, room, len(room)), f"length is {len(room)}")
    raw.library.check(raw.library.tokens(raw.handle, 0, 1000, None, 0, one, one))
    assert one.value == 2  # finish; past the end there is nothing to copy


def test_longer_structure_of_a_newer_header(raw: Raw, binding: ModuleType) -> None:
    """Fields that this library does not know are accepted while they are zero."""

    class Newer(ctypes.Structure):
        _fields_ = [("known", binding._Sequence), ("future", ctypes.c_uint64)]

    newer = Newer(raw.sequence(struct_bytes=ctypes.sizeof(Newer)))
    raw.library.check(raw.library.generate(raw.handle, ctypes.byref(newer), 1, None))
    raw.model.wait()
    newer.future = 1
    raw.refused(
        raw.library.generate(raw.handle, ctypes.byref(newer), 1, None), "sequences[0].struct_bytes", "byte 56"
    )


def test_nothing_changes_after_a_refusal(raw: Raw, model: Any, spec: dict[str, Any]) -> None:
    (before,) = model.generate([random_prompt(spec, 3)], max_new_tokens=3)
    raw.refused(raw.generate(raw.sequence(top_p=9.0)), "top_p")
    tokens, finish = model.tokens(0)
    np.testing.assert_array_equal(tokens, before.tokens)
    assert finish == before.finish


def test_cache_too_small_for_the_request(
    make_model: Callable[..., Any], binding: ModuleType, spec: dict[str, Any]
) -> None:
    page = spec["runtime"]["kv_page"]
    if spec["runtime"]["context"] <= page:
        pytest.skip("a sequence has one page at most")
    model = make_model(kv_tokens=page)
    model.generate([[1]], max_new_tokens=page)
    with pytest.raises(
        binding.ModelError, match=f"need 2 pages of {page} tokens.* has 1; .*kv_tokens"
    ) as error:
        model.start([[1]], max_new_tokens=page + 1)
    assert error.value.status == binding.Status.INVALID_ARGUMENT
    model.generate([[1]], max_new_tokens=1)


def test_busy(make_model: Callable[..., Any], binding: ModuleType, spec: dict[str, Any]) -> None:
    """A second call while one runs. A call may end before the next statement, so there are some tries."""
    model = make_model()
    second = Raw(binding, model)
    longest = spec["runtime"]["context"] - 1
    for _ in range(20):
        model.start([[1]] * spec["runtime"]["batch"], max_new_tokens=longest)
        status = second.generate(second.sequence())
        model.wait()
        if status != binding.Status.OK:
            break
    assert status == binding.Status.BUSY, "no call was refused while another ran"
    assert b"still running a call" in model.library.last_error()
    model.generate([[1]], max_new_tokens=1)


def test_bad_options(binding: ModuleType, library: Any, weights: Any, make_model: Callable[..., Any]) -> None:
    with pytest.raises(binding.ModelError, match=r"options.workers is 1000000, expected 0 .* to \d+"):
        make_model(workers=1000000)
    handle = ctypes.c_void_p(1)
    options = binding._Options(weights_path=str(weights).encode(), struct_bytes=4, device=-1)
    assert library.create(ctypes.byref(options), ctypes.byref(handle)) == binding.Status.INVALID_ARGUMENT
    assert "options.struct_bytes is 4" in library.last_error().decode()
    assert handle.value is None
    options = binding._Options(struct_bytes=ctypes.sizeof(binding._Options), device=-1)
    assert library.create(ctypes.byref(options), ctypes.byref(handle)) == binding.Status.INVALID_ARGUMENT
    assert library.last_error() == b"options.weights_path is NULL"


def test_status_names(binding: ModuleType, library: Any) -> None:
    for status in binding.Status:
        assert library.status_name(status).decode() == status.name
    assert library.status_name(99) == b"UNKNOWN"


@pytest.mark.parametrize(
    "prompt",
    [np.array([1, 2**32 + 2]), [1, 2.5], np.array([[1, 2, 3]]), 7],
    ids=["wide", "real", "2-D", "scalar"],
)
def test_the_binding_takes_whole_tokens_only(model: Any, prompt: Any) -> None:
    with pytest.raises(ValueError, match=r"prompts\[0\] is not a list of 32-bit integers"):
        model.generate([prompt])
