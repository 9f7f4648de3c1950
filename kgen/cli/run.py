"""kgen run"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kgen.cli.output import UsageError, data_json, progress, say
from kgen.cli.projects import PresetOption, ProjectArgument, some_path


def run(
    project: ProjectArgument,
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt", "-p", metavar="TEXT", help="What to answer [default: talk, or read a pipe]."
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the prompt; use no chat template.")] = False,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            "-w",
            parser=some_path,
            metavar="PATH",
            help="Packed file or checkpoint [default: DIR/weights.bin].",
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            parser=some_path, metavar="PATH", help="GGUF or tokenizer.json [default: beside the weights]."
        ),
    ] = None,
    preset: PresetOption = "auto",
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", min=1, help="Tokens of an answer.")] = 256,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token.")] = 0.0,
    top_k: Annotated[int, typer.Option(min=0, help="Draw from the k likeliest; 0: from all.")] = 0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0, help="Draw from this share of the mass.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer and its timings as JSON.")
    ] = False,
) -> None:
    """Let a built project write text, streaming it as it comes."""
    from kgen.runner import Sampling, Session, chat

    if prompt is None and not sys.stdin.isatty():
        prompt = sys.stdin.read().removesuffix("\n")  # the one that `echo` and here-documents add
    if prompt is None and (as_json or raw):
        raise UsageError("--json and --raw need a prompt: --prompt TEXT, or text on standard input")
    sampling = Sampling(max_tokens, temperature, top_k, top_p, seed)
    with progress(f"loading {project}") as show:

        def packing(done: int, total: int) -> None:
            if show is not None:
                show(f"packing weights: {done / 1e6:.0f} of {total / 1e6:.0f} MB")

        session = Session(project, weights=weights, tokenizer=tokenizer, preset=preset, progress=packing)
    with session:
        if prompt is None:
            chat(session, sampling, ask=_next_line, show=_stream)
            return
        asked = [{"role": "user", "content": prompt}] if session.has_chat and not raw else prompt
        answer = session.ask(asked, sampling, show=None if as_json else _stream)
    if as_json:
        data_json(answer.to_json())
        return
    _stream("\n")
    say(answer.summary())


def _stream(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()


def _next_line() -> str | None:
    try:
        return input("> ")
    except EOFError:
        print()
        return None
