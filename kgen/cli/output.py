"""Data goes to standard output, everything else to standard error."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TextIO

import typer

if TYPE_CHECKING:
    from kgen.toolchain.build import Progress


class ExitCode(IntEnum):
    """What `kgen` exits with."""

    OK = 0
    STALE = 1  # or a failed test
    BAD_INPUT = 2  # a bad spec, bad weights or wrong usage
    TOOLCHAIN = 3  # a missing tool or a failed build
    INTERRUPTED = 130


class UsageError(Exception):
    """The user asked for something that cannot be; the message says what in one sentence."""


def prepare_streams() -> None:
    """Make the standard streams usable, whoever started this process and in which locale."""
    # A stream that was closed is None, and print would take another one.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - for as long as kgen runs
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - for as long as kgen runs
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - for as long as kgen runs
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")  # files are the same bytes in every locale


def discard(stream: TextIO) -> None:
    """Send what is still buffered, and all that follows, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(message: str) -> None:
    """A line for the user."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:  # nobody can be told; what is buffered must not be tried again at the end
        discard(sys.stderr)


def counted(number: int, noun: str) -> str:
    """The number with its noun: 1 file, 2 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def data(text: str) -> None:
    """A result, as it is."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def data_json(value: Any) -> None:
    """A result as JSON."""
    data(json.dumps(value, indent=2))


def stop(code: ExitCode) -> typer.Exit:
    """To be raised: end with this exit code and nothing more to say."""
    return typer.Exit(int(code))


@contextmanager
def progress(what: str) -> Iterator[Progress | None]:
    """A function that shows the latest line of a long job, or None when nobody watches a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    with console.status(what) as status:

        def show(line: str) -> None:
            status.update(f"{what}  [dim]{escape(line[: max(0, console.width - len(what) - 8)])}[/dim]")

        yield show
