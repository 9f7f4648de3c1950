"""`kgen run`: which prompt reaches the model."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pytest
from typer.testing import CliRunner

from kgen import runner
from kgen.cli.main import app

asked: list[Any] = []


class FakeSession:
    """Notes what it was asked."""

    has_chat = True

    def __init__(self, project: object, **options: object) -> None:
        pass

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def ask(self, prompt: Any, sampling: runner.Sampling, *, show: Any = None) -> runner.Answer:
        asked.append(prompt)
        return runner.Answer(1, [1], "text", "length", 1.0, 1.0, "host")


@pytest.mark.parametrize(
    ("piped", "prompt"),
    [
        ("hello\n", "hello"),
        ("hello", "hello"),
        ("two\nlines\n\n", "two\nlines\n"),
        ("\n", ""),
        ("blank \n", "blank "),
    ],
)
def test_a_piped_prompt_loses_the_newline_that_a_shell_adds(
    piped: str, prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "Session", FakeSession)
    asked.clear()
    for options in ([], ["--raw"], ["--json"]):
        done = CliRunner().invoke(app, ["run", "project", *options], input=piped)
        assert done.exit_code == 0, done.output
    message = [{"role": "user", "content": prompt}]
    assert asked == [message, prompt, message]


def test_a_prompt_of_the_command_line_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "Session", FakeSession)
    asked.clear()
    assert CliRunner().invoke(app, ["run", "project", "--raw", "-p", "hello\n"]).exit_code == 0
    assert asked == ["hello\n"]
