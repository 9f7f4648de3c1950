"""`kgen run` without a compiler: a project whose binding is a stand-in that plays a fixed answer."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer as HfTokenizer
from tokenizers import decoders, models, pre_tokenizers

from kgen import runner
from kgen.runner import RunError, Sampling, Session, chat
from kgen.weights.checkpoint import WeightsError
from kgen.weights.pack import pack_weights

BINDING = """
from dataclasses import dataclass
from enum import IntEnum
from types import SimpleNamespace

import numpy as np


class Finish(IntEnum):
    RUNNING = 0
    STOP_TOKEN = 1
    LENGTH = 2


class ModelError(RuntimeError):
    pass


class Model:
    calls = []
    answer = []

    def __init__(self, weights, *, library):
        self.weights, self.library = weights, library
        self.info = SimpleNamespace(context=40, cuda=False)
        self.closed = False

    def generate(self, prompts, *, stop_tokens, max_new_tokens, on_token, **sampling):
        if sampling["seed"] == 13:
            raise ModelError("TIMEOUT: rank 0, worker 3")
        Model.calls.append((prompts, list(stop_tokens), max_new_tokens, sampling))
        tokens = Model.answer[:max_new_tokens]
        for token in tokens:
            on_token(0, token)
        stopped = tokens[-1] in stop_tokens
        return [SimpleNamespace(tokens=np.array(tokens, np.int32), finish=Finish(1 if stopped else 2))]

    def close(self):
        self.closed = True
"""
TOKENS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<|im_end|>"]
STOP = len(TOKENS) - 1


def ids_of(text: str) -> list[int]:
    backend = HfTokenizer(models.BPE({t: i for i, t in enumerate(TOKENS)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return backend.encode(text).ids


@pytest.fixture
def built(project) -> Path:
    """The tiny project as if generated and built for the host."""
    root = project.path
    presets = {"configurePresets": [{"name": n} for n in ("host", "cuda")]}
    (root / "CMakePresets.json").write_text(json.dumps(presets))
    (root / "python").mkdir()
    (root / "python/tiny_by_hand.py").write_text(BINDING)
    (root / "build/host").mkdir(parents=True)
    (root / "build/host/libtiny_by_hand.so").write_bytes(b"")
    return root


@pytest.fixture
def checkpoint(project, tmp_path) -> Path:
    """A safetensors folder with a tokenizer of single bytes and a chat template."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    save_file(project.random(), folder / "model.safetensors")
    backend = HfTokenizer(models.BPE({t: i for i, t in enumerate(TOKENS)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|im_end|>"])
    backend.save(str(folder / "tokenizer.json"))
    template = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


@pytest.fixture
def session(built, checkpoint):
    with Session(built, weights=checkpoint, preset="host") as opened:
        opened.model.__class__.calls = []
        opened.model.__class__.answer = [*ids_of("né!"), STOP]
        yield opened


def test_an_answer_streams_and_is_timed(session):
    shown = []
    answer = session.ask(
        "abc", Sampling(max_new_tokens=9, temperature=0.5, top_k=3, top_p=0.9, seed=4), show=shown.append
    )
    assert shown == ["n", "é", "!"]
    assert (answer.text, answer.finish, answer.tokens[-1]) == ("né!", "stop_token", STOP)
    assert session.model.calls == [
        ([ids_of("abc")], [STOP], 9, {"temperature": 0.5, "top_k": 3, "top_p": 0.9, "seed": 4})
    ]
    assert answer.decode_speed == pytest.approx(4 / answer.decode_seconds)
    assert answer.prompt_speed == pytest.approx(3 / answer.prompt_seconds)
    assert answer.to_json()["tokens_per_second"] == answer.decode_speed
    assert answer.summary().endswith("(host)")


def test_an_answer_that_is_cut_short_keeps_its_broken_character(session):
    answer = session.ask("abc", Sampling(max_new_tokens=2))
    assert (answer.text, answer.finish) == ("n�", "length")


def test_the_context_bounds_prompt_and_answer(session):
    session.ask("x" * 38, Sampling(max_new_tokens=100))
    assert session.model.calls[0][2] == 3  # the last token needs no place in the cache
    with pytest.raises(RunError, match="the prompt has 41 tokens; this project takes 1 to 40"):
        session.ask("x" * 41, Sampling())
    with pytest.raises(RunError, match="the prompt has 0 tokens"):
        session.ask("", Sampling())


def test_a_failed_call_is_a_run_error(session):
    with pytest.raises(RunError, match="TIMEOUT: rank 0, worker 3"):
        session.ask("abc", Sampling(seed=13))


def test_a_conversation_grows(session, capsys):
    lines = iter(["hi", "ok", None])
    out = io.StringIO()
    chat(session, Sampling(), ask=lambda: next(lines), show=out.write)
    prompts = [call[0][0] for call in session.model.calls]
    assert prompts == [ids_of("u:hi;"), ids_of("u:hi;a:né!;u:ok;")]
    assert out.getvalue() == "né!\nné!\n"
    assert capsys.readouterr().err.count("(host)\n") == 2


def test_a_checkpoint_is_packed_once_for_the_project(built, checkpoint, monkeypatch):
    with Session(built, weights=checkpoint, preset="host") as first:
        packed = first.model.weights
    assert packed.parent == built / "build"
    monkeypatch.setattr(runner, "pack_weights", None)
    with Session(built, weights=checkpoint, preset="host") as again:
        assert again.model.weights == packed
    (checkpoint / "model.safetensors").touch()
    with pytest.raises(TypeError):  # a newer checkpoint is packed anew
        Session(built, weights=checkpoint, preset="host")


def test_packed_weights_bring_their_tokenizer(built, checkpoint):
    with pytest.raises(RunError, match=r"has no weights\.bin"):
        Session(built, preset="host")
    report = pack_weights(built, checkpoint, built / "weights.bin")
    assert report.tokenizer == built / "weights.tokenizer.json"
    with Session(built) as session:
        assert session.model.weights == built / "weights.bin"
        assert session.has_chat
    raw = (built / "weights.bin").read_bytes()
    (built / "weights.bin").write_bytes(raw[:24] + bytes(32) + raw[56:])
    with pytest.raises(WeightsError, match="packed for another plan"):
        Session(built)


def test_packing_over_weights_without_a_tokenizer_forgets_the_old_one(built, checkpoint):
    pack_weights(built, checkpoint, built / "weights.bin")
    (checkpoint / "tokenizer.json").unlink()
    assert pack_weights(built, checkpoint, built / "weights.bin").tokenizer is None
    sentence = "no tokenizer beside the weights; give --tokenizer tokenizer.json (or a GGUF)"
    for weights in (None, checkpoint):
        with pytest.raises(RunError) as error:
            Session(built, weights=weights, preset="host")
        assert str(error.value) == sentence
    with pytest.raises(WeightsError, match=r"none\.json: cannot be read"):
        Session(built, tokenizer=checkpoint / "none.json")


def test_a_new_shard_in_the_same_folder_is_packed_again(built, checkpoint):
    (checkpoint / "model.safetensors").rename(checkpoint / "a.safetensors")
    save_file({"model.norm.rotary_emb.inv_freq": np.zeros(1, np.float32)}, checkpoint / "b.safetensors")
    packed = set()
    for seconds in (1, 2):
        os.utime(checkpoint / "b.safetensors", (seconds, seconds))
        with Session(built, weights=checkpoint, preset="host") as session:
            packed.add(session.model.weights)
    assert len(packed) == 2


def test_a_project_that_is_not_built_says_how(built, checkpoint):
    (built / "build/host/libtiny_by_hand.so").unlink()
    with pytest.raises(RunError, match=r"is not built: run kgen build .*--preset host first"):
        Session(built, weights=checkpoint, preset="host")
