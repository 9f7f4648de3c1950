"""Which exceptions are a user's to mend, and what is said about them."""

from __future__ import annotations

from kgen.cli.output import ExitCode, UsageError


def describe(error: Exception) -> tuple[ExitCode, str] | None:
    """The exit code and the sentence for a user's or machine's error, None for a fault of kgen."""
    # Imported here: only a run that failed pays for it.
    from kgen.diagnostics import SpecError
    from kgen.render.writer import WriteError
    from kgen.runner import RunError
    from kgen.toolchain.find import ToolchainError
    from kgen.weights.checkpoint import WeightsError

    if isinstance(error, ToolchainError):
        return ExitCode.TOOLCHAIN, str(error)
    if isinstance(error, UsageError | SpecError | WriteError | RunError | WeightsError):
        return ExitCode.BAD_INPUT, str(error)
    if isinstance(error, OSError):  # without a file name it is about the output
        return ExitCode.BAD_INPUT, f"{error.filename or 'cannot write the output'}: {error.strerror or error}"
    return None
