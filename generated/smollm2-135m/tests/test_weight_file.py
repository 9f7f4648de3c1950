"""Weight files that do not fit are refused with a sentence that says why."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packed import HEADER_BYTES, header


def refusal(binding: ModuleType, library: Any, path: Path) -> tuple[str, str]:
    with pytest.raises(binding.ModelError) as error:
        binding.Model(path, library=library)
    assert str(path) in error.value.sentence
    return error.value.status.name, error.value.sentence


def with_header(weights: Path, path: Path, replaced: bytes) -> Path:
    data = bytearray(weights.read_bytes())
    data[: len(replaced)] = replaced
    path.write_bytes(data)
    return path


def test_missing_file(binding: ModuleType, library: Any, tmp_path: Path) -> None:
    status, sentence = refusal(binding, library, tmp_path / "nowhere.weights")
    assert status == "IO_ERROR"
    assert "No such file" in sentence


def test_folder(binding: ModuleType, library: Any, tmp_path: Path) -> None:
    status, sentence = refusal(binding, library, tmp_path)
    assert status == "IO_ERROR"
    assert "not a regular file" in sentence


def test_a_pipe_is_not_waited_for(binding: ModuleType, library: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(binding, library, tmp_path / "pipe")[1]


def test_empty_and_foreign_files(binding: ModuleType, library: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert refusal(binding, library, path)[0] == "WRONG_WEIGHTS"
    path.write_bytes(b"GGUF" + bytes(100_000))
    status, sentence = refusal(binding, library, path)
    assert status == "WRONG_WEIGHTS"
    assert "not a packed weight file" in sentence


def test_file_of_another_plan(
    binding: ModuleType, library: Any, spec: dict[str, Any], weights: Path, tmp_path: Path
) -> None:
    other = with_header(weights, tmp_path / "other", header(spec, name="another_model", digest="ab" * 32))
    status, sentence = refusal(binding, library, other)
    assert status == "WRONG_WEIGHTS"
    for part in ("'another_model'", f"'{spec['name']}'", "ab" * 6, spec["digest"][:12]):
        assert part in sentence


def test_same_name_but_other_shapes(
    binding: ModuleType, library: Any, spec: dict[str, Any], weights: Path, tmp_path: Path
) -> None:
    other = with_header(weights, tmp_path / "other", header(spec, digest="cd" * 32))
    assert refusal(binding, library, other)[0] == "WRONG_WEIGHTS"


@pytest.mark.parametrize("change", [-1, 1])
def test_truncated_or_longer_file(
    binding: ModuleType, library: Any, spec: dict[str, Any], weights: Path, tmp_path: Path, change: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes((weights.read_bytes() + b"\0")[: HEADER_BYTES + spec["weight_bytes"] + change])
    status, sentence = refusal(binding, library, path)
    assert status == "WRONG_WEIGHTS"
    assert str(HEADER_BYTES + spec["weight_bytes"]) in sentence
    assert str(HEADER_BYTES + spec["weight_bytes"] + change) in sentence
