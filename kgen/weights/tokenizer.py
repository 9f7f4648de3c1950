"""The tokenizer and chat template that come with a checkpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as HfTokenizer

from kgen.weights.chat import render_chat
from kgen.weights.checkpoint import WeightsError
from kgen.weights.files import write_whole
from kgen.weights.gguf_tokenizer import gguf_tokenizer

# Tokens that end a turn or a text; models state only some of them in their metadata.
_END_TOKENS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>")


class NoTokenizer(WeightsError):
    """There is no file with a tokenizer where one was looked for."""


@dataclass(frozen=True)
class Tokenizer:
    """Text to token ids and back.

    `stop_ids` end a generation. `chat_template` is Jinja source, or None for a model that has none.
    """

    backend: HfTokenizer
    stop_ids: tuple[int, ...]
    bos_token: str = ""
    eos_token: str = ""
    chat_template: str | None = None

    def encode(self, text: str) -> list[int]:
        """Ids of a plain prompt, with the beginning-of-text token where the model wants one."""
        ids: list[int] = self.backend.encode(text).ids
        return ids

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Ids of a conversation ({"role", "content"} each), ready for the assistant's answer.

        Raises WeightsError when the model has no chat template or the template refuses the messages.
        """
        if self.chat_template is None:
            raise WeightsError("this model has no chat template; give a plain prompt with --raw")
        text = render_chat(self.chat_template, messages, bos_token=self.bos_token, eos_token=self.eos_token)
        ids: list[int] = self.backend.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: list[int]) -> str:
        """Text of ids, without special tokens; bytes that are not UTF-8 become U+FFFD."""
        text: str = self.backend.decode(ids, skip_special_tokens=True)
        return text

    def stream(self) -> TextStream:
        """A decoder that is given ids one by one."""
        return TextStream(self)

    def to_json(self) -> str:
        """The whole tokenizer as one JSON text, for `load_saved`."""
        return json.dumps(
            {
                "tokenizer": json.loads(self.backend.to_str()),
                "stop_ids": self.stop_ids,
                "bos_token": self.bos_token,
                "eos_token": self.eos_token,
                "chat_template": self.chat_template,
            },
            ensure_ascii=False,
        )


class TextStream:
    """Text of a growing list of ids, in pieces that never split a character.

    A tokenizer may need the ids before a piece to know whether it begins with a space, so each piece is the
    difference of two decodings that begin at the piece before it.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._shown = 0  # how many of _ids have been put out; the ids before it are context

    def push(self, token: int) -> str:
        """The text that `token` completes; empty while a character lacks bytes."""
        self._ids.append(token)
        return self._advance(final=False)

    def finish(self) -> str:
        """What is left, with U+FFFD for bytes that no character came of."""
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> str:
        before = self._tokenizer.decode(self._ids[: self._shown])
        now = self._tokenizer.decode(self._ids)
        if not final and now.endswith("�"):
            return ""
        piece = now[len(before) :]
        if piece:
            del self._ids[: self._shown]
            self._shown = len(self._ids)
        return piece


def saved_tokenizer(packed: Path) -> Path:
    """Where the tokenizer of a packed weight file is kept: beside it."""
    return packed.with_suffix(".tokenizer.json")


def save_tokenizer(checkpoint: Path, packed: Path) -> Path | None:
    """Keep the checkpoint's tokenizer beside the packed file; None when it has none that can be read."""
    file = saved_tokenizer(packed)
    try:
        text = load_tokenizer(checkpoint).to_json()
    except WeightsError:
        file.unlink(missing_ok=True)  # of weights packed here before
        return None
    write_whole(file, lambda stream: stream.write(text.encode()))
    return file


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer at `path`: a GGUF file, a tokenizer.json or a directory or weight file beside one.

    A file that `Tokenizer.to_json` wrote is read too. Raises NoTokenizer when there is none, WeightsError
    when its kind is not supported.
    """
    if path.is_dir():
        found = [path / "tokenizer.json", *sorted(path.glob("*.gguf"))]
        usable = next((f for f in found if f.is_file()), None)
        if usable is None:
            raise NoTokenizer(f"{path}: no tokenizer.json and no .gguf file here")
        path = usable
    if path.suffix == ".gguf":
        return _from_gguf(path)
    if path.suffix == ".safetensors" or path.name.endswith(".index.json"):
        return load_tokenizer(path.parent)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return _saved(data) if "tokenizer" in data else _from_hugging_face(path, data)
    except FileNotFoundError as error:
        raise NoTokenizer(f"{path}: cannot be read: {error.strerror}") from error
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"{path}: not a tokenizer.json: {error!r}") from error


def _backend(data: Any) -> HfTokenizer:
    try:
        return HfTokenizer.from_str(json.dumps(data))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(error) from error


def _saved(data: dict[str, Any]) -> Tokenizer:
    return Tokenizer(
        _backend(data["tokenizer"]),
        tuple(data["stop_ids"]),
        data["bos_token"],
        data["eos_token"],
        data["chat_template"],
    )


def _from_gguf(path: Path) -> Tokenizer:
    parts = gguf_tokenizer(path)
    stops = [i for i in (parts.eos_id, parts.eot_id) if i is not None]
    return Tokenizer(
        parts.backend,
        _stop_ids(parts.backend, stops),
        _text(parts.backend, parts.bos_id),
        _text(parts.backend, parts.eos_id),
        parts.chat_template,
    )


def _from_hugging_face(path: Path, data: dict[str, Any]) -> Tokenizer:
    backend = _backend(data)
    config = _optional_json(path.with_name("tokenizer_config.json"))
    stated = _optional_json(path.with_name("generation_config.json")).get("eos_token_id")
    if stated is None:
        stated = _optional_json(path.with_name("config.json")).get("eos_token_id", [])
    stops = stated if isinstance(stated, list) else [stated]
    bos, eos = (_token_text(config.get(key)) for key in ("bos_token", "eos_token"))
    if eos and backend.token_to_id(eos) is not None:
        stops = [*stops, backend.token_to_id(eos)]
    template = config.get("chat_template")
    if (file := path.with_name("chat_template.jinja")).is_file():
        template = file.read_text(encoding="utf-8")
    if isinstance(template, list):  # several by name
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return Tokenizer(backend, _stop_ids(backend, [s for s in stops if s is not None]), bos, eos, template)


def _stop_ids(backend: HfTokenizer, stated: list[int]) -> tuple[int, ...]:
    known = [backend.token_to_id(token) for token in _END_TOKENS]
    return tuple(sorted({*stated, *(i for i in known if i is not None)}))


def _text(backend: HfTokenizer, token: int | None) -> str:
    return "" if token is None else backend.id_to_token(token) or ""


def _token_text(entry: Any) -> str:
    """A special token of tokenizer_config.json: a string, or an object that holds it."""
    if isinstance(entry, dict):
        entry = entry["content"]
    return entry or ""


def _optional_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data
