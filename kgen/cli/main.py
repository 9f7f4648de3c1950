"""The commands by name, and what every failure looks like."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from kgen import __version__
from kgen.cli import (
    bench,
    build,
    check,
    doctor,
    expand,
    explain,
    generate,
    graph,
    list_specs,
    pack,
    run,
    schema,
    test,
    trace,
)
from kgen.cli.failures import describe
from kgen.cli.output import ExitCode, data, discard, prepare_streams, say

app = typer.Typer(
    name="kgen",
    help="Compile a YAML spec of a kernel or a language model into a standalone C++/CUDA project.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_COMMANDS: dict[str, Callable[..., None]] = {
    "check": check.check,
    "expand": expand.expand,
    "generate": generate.generate,
    "build": build.build,
    "test": test.run_tests,
    "bench": bench.bench,
    "pack": pack.pack,
    "run": run.run,
    "trace": trace.trace,
    "explain": explain.explain,
    "graph": graph.graph,
    "schema": schema.schema,
    "doctor": doctor.doctor,
    "list": list_specs.list_specs,
}
for name, command in _COMMANDS.items():
    app.command(name)(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        data(f"kgen {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit; a failure is a sentence on standard error, never a traceback."""
    prepare_streams()
    try:
        try:
            app(prog_name="kgen", standalone_mode=True)
        finally:
            # A reader that has gone away is found out here, not while the interpreter shuts down.
            sys.stdout.flush()
    except SystemExit as ending:
        if ending.code == ExitCode.INTERRUPTED:
            say("interrupted")
        raise
    except BrokenPipeError:
        # Whoever read the output has what they wanted.
        discard(sys.stdout)
        sys.exit(1)
    except Exception as error:
        described = describe(error)
        if described is None:
            raise
        code, sentence = described
        if isinstance(error, OSError):
            discard(sys.stdout)  # what could not be written must not be tried again at the end
        say(sentence)
        sys.exit(code)
