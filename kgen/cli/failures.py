"""Which exceptions are a user's to mend, and the exit code of each."""

from __future__ import annotations

from kgen.cli.output import ExitCode, UsageError


def exit_code_of(error: Exception) -> ExitCode | None:
    """The exit code for an error whose text is meant for the user, None for a fault of kgen itself."""
    # Imported here: only a run that failed pays for it.
    from kgen.diagnostics import SpecError
    from kgen.passes.pipeline import CompileError
    from kgen.render.writer import WriteError
    from kgen.runner import RunError
    from kgen.toolchain.find import ToolchainError
    from kgen.weights.checkpoint import WeightsError

    if isinstance(error, UsageError | SpecError | CompileError | WriteError | RunError | WeightsError):
        return ExitCode.BAD_INPUT
    if isinstance(error, ToolchainError):
        return ExitCode.TOOLCHAIN
    return None
