"""The `kgen` command: parse, call, print, exit code. No logic."""

from kgen.cli.main import main

__all__ = ["main"]
