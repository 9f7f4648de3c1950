"""Load a built project with its weights and let it write text: what `kgen run` does."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from kgen.toolchain.build import AUTO, choose_preset, preset_folder
from kgen.weights.layout import check_packed, is_packed, read_layout
from kgen.weights.open import locate, shards_of
from kgen.weights.pack import Progress, pack_weights
from kgen.weights.tokenizer import NoTokenizer, Tokenizer, load_tokenizer, saved_tokenizer

WEIGHTS = "weights.bin"  # where `kgen pack` writes unless told otherwise


class RunError(Exception):
    """The project cannot be run as asked; the message says what to do."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. temperature 0: the likeliest; top_k 0 and top_p 1: no limit."""

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """What one prompt gave. Seconds: prompt until the first token appears, decode from there to the last."""

    prompt_tokens: int
    tokens: list[int]
    text: str
    finish: str  # "stop_token" or "length"
    prompt_seconds: float
    decode_seconds: float
    target: str  # "cuda" or "host"

    @property
    def prompt_speed(self) -> float:
        """Prompt tokens per second."""
        return self.prompt_tokens / max(self.prompt_seconds, 1e-9)

    @property
    def decode_speed(self) -> float:
        """Tokens per second after the first; 0 when there is only one."""
        return (len(self.tokens) - 1) / max(self.decode_seconds, 1e-9)

    def summary(self) -> str:
        """One line for a person."""
        decode = f"{self.decode_speed:.1f} tokens/s" if len(self.tokens) > 1 else "no more than one token"
        return (
            f"prompt {_tokens(self.prompt_tokens)}, {self.prompt_speed:.1f} tokens/s; "
            f"answer {_tokens(len(self.tokens))}, {decode} ({self.target})"
        )

    def to_json(self) -> dict[str, Any]:
        """The same for a machine."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "finish": self.finish,
            "target": self.target,
            "prompt_tokens": self.prompt_tokens,
            "prompt_seconds": self.prompt_seconds,
            "prompt_tokens_per_second": self.prompt_speed,
            "decode_seconds": self.decode_seconds,
            "tokens_per_second": self.decode_speed,
        }


class Session:
    """A loaded model and its tokenizer. Close it, or use it in a `with` block."""

    def __init__(
        self,
        project: Path,
        *,
        weights: Path | None = None,
        tokenizer: Path | None = None,
        preset: str = AUTO,
        progress: Progress | None = None,
    ) -> None:
        """Load a project that is built.

        weights: a packed file, or a checkpoint, which is packed first and kept in the project's build folder;
        None: the project's weights.bin. tokenizer: a tokenizer.json, a GGUF file or a folder with one; None:
        the one that came with the weights. Raises RunError or WeightsError.
        """
        library = find_library(project, preset)
        packed, found = packed_weights(project, weights, progress)
        self.tokenizer = _tokenizer(tokenizer, found)
        self._binding = load_binding(project)
        try:
            self.model = self._binding.Model(packed, library=library)
        except (self._binding.ModelError, RuntimeError, OSError) as error:
            raise RunError(f"{library}: {error}") from error

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.model.close()

    @property
    def has_chat(self) -> bool:
        """Whether the model comes with a chat template."""
        return self.tokenizer.chat_template is not None

    def ask(
        self,
        prompt: str | list[dict[str, str]],
        sampling: Sampling,
        *,
        show: Callable[[str], None] | None = None,
    ) -> Answer:
        """Continue a text, or answer a conversation ({"role", "content"} each).

        `show` is given the text piece by piece as it comes. Raises RunError when the prompt does not fit or
        the call fails.
        """
        tokenizer = self.tokenizer
        ids = tokenizer.encode(prompt) if isinstance(prompt, str) else tokenizer.encode_chat(prompt)
        context = self.model.info.context
        if not 1 <= len(ids) <= context:
            raise RunError(f"the prompt has {_tokens(len(ids))}; this project takes 1 to {context}")
        stream, pieces, times = tokenizer.stream(), [], [time.perf_counter()]

        def put(piece: str) -> None:
            pieces.append(piece)
            if piece and show is not None:
                show(piece)

        def on_token(_: int, token: int) -> None:
            times.append(time.perf_counter())
            if token not in tokenizer.stop_ids:
                put(stream.push(token))

        try:
            (result,) = self.model.generate(
                [ids],
                max_new_tokens=min(sampling.max_new_tokens, context + 1 - len(ids)),
                temperature=sampling.temperature,
                top_k=sampling.top_k,
                top_p=sampling.top_p,
                seed=sampling.seed,
                stop_tokens=tokenizer.stop_ids,
                on_token=on_token,
            )
        except self._binding.ModelError as error:
            raise RunError(str(error)) from error
        put(stream.finish())
        return Answer(
            prompt_tokens=len(ids),
            tokens=result.tokens.tolist(),
            text="".join(pieces),
            finish=result.finish.name.lower(),
            prompt_seconds=times[1] - times[0],
            decode_seconds=times[-1] - times[1],
            target="cuda" if self.model.info.cuda else "host",
        )


def chat(
    session: Session, sampling: Sampling, *, ask: Callable[[], str | None], show: Callable[[str], None]
) -> None:
    """Talk until `ask` returns None. With a chat template each prompt is the conversation so far."""
    messages: list[dict[str, str]] = []
    while (line := ask()) is not None:
        if not session.has_chat:
            answer = session.ask(line, sampling, show=show)
        else:
            messages.append({"role": "user", "content": line})
            answer = session.ask(messages, sampling, show=show)
            messages.append({"role": "assistant", "content": answer.text})
        show("\n")
        print(answer.summary(), file=sys.stderr)


def find_library(project: Path, preset: str = AUTO) -> Path:
    """The built library. `auto` prefers CUDA where a GPU is. Raises RunError when it is not built."""
    name = read_layout(project).name
    library = preset_folder(project, choose_preset(preset)) / f"lib{name}.so"
    if preset == AUTO and not library.is_file():
        library = preset_folder(project, "host") / library.name
    if not library.is_file():
        option = "" if preset == AUTO else f" --preset {preset}"
        raise RunError(f"{project} is not built: run kgen build {project}{option} first")
    return library


def load_binding(project: Path) -> ModuleType:
    """The project's own Python module for its C interface."""
    name = read_layout(project).name
    file = project / "python" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise RunError(f"{file} is missing; generate the project again")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def _tokens(number: int) -> str:
    return f"{number} token{'s' * (number != 1)}"


def _tokenizer(chosen: Path | None, found: Path) -> Tokenizer:
    """The one that the user chose, else the one that came with the weights. Raises RunError for none."""
    try:
        return load_tokenizer(chosen or found)
    except NoTokenizer as error:
        if chosen is not None:
            raise
        text = "no tokenizer beside the weights; give --tokenizer tokenizer.json (or a GGUF)"
        raise RunError(text) from error


def packed_weights(project: Path, weights: Path | None, progress: Progress | None) -> tuple[Path, Path]:
    """(packed file, where its tokenizer is). The arguments are those of Session, and what is raised, too."""
    layout = read_layout(project)
    if weights is None:
        weights = project / WEIGHTS
        if not weights.is_file():
            raise RunError(f"{project} has no {WEIGHTS}: name a checkpoint with --weights, or use kgen pack")
    if weights.is_file() and is_packed(weights):
        check_packed(weights, layout)
        return weights, saved_tokenizer(weights)
    checkpoint = locate(weights)
    stats = [f.stat() for f in (shards_of(checkpoint) if checkpoint.is_dir() else [checkpoint])]
    state = [number for stat in stats for number in (stat.st_size, stat.st_mtime_ns)]
    key = json.dumps([layout.digest, str(checkpoint.resolve()), *state])
    packed = project / "build" / f"weights-{hashlib.sha256(key.encode()).hexdigest()[:16]}.bin"
    if not packed.is_file():
        pack_weights(project, checkpoint, packed, progress=progress)
    check_packed(packed, layout)
    saved = saved_tokenizer(packed)
    return packed, saved if saved.is_file() else checkpoint
