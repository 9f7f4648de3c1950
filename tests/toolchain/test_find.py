from pathlib import Path

import pytest

from kgen.toolchain import find
from kgen.toolchain.find import Tool, find_cxx, find_nvcc, is_recent_nvcc


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def nvcc(path: Path, version: str) -> Path:
    return program(path, f"(c) 2005-2025 NVIDIA\nCuda compilation tools, release 13.0, V{version}")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with no nvcc at all."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    monkeypatch.delenv("CUDACXX", raising=False)
    monkeypatch.setattr(find, "_SYSTEM_CUDA", tmp_path / "system" / "nvcc")
    monkeypatch.setattr(find, "provide_root", lambda: None)
    return monkeypatch


def test_cxx_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = program(tmp_path / "my-compiler", "my-compiler 7.8.9")
    monkeypatch.setenv("CXX", str(compiler))
    assert find_cxx() == Tool("my-compiler", compiler, "CXX", "7.8.9")
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert find_cxx() is None


def test_places_of_nvcc_in_order(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_nvcc() is None
    bare.setattr(find, "provide_root", lambda: tmp_path / "wheels")
    for origin, path in {
        "CUDA wheels": tmp_path / "wheels" / "bin" / "nvcc",
        "system": tmp_path / "system" / "nvcc",
        "PATH": tmp_path / "bin" / "nvcc",
        "CUDACXX": tmp_path / "chosen" / "nvcc",
    }.items():
        nvcc(path, "13.0.88")
        if origin == "CUDACXX":
            bare.setenv("CUDACXX", str(path))
        assert find_nvcc() == Tool("nvcc", path, origin, "13.0.88")


def test_an_old_nvcc_is_passed_over_for_a_recent_one(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nvcc(tmp_path / "bin" / "nvcc", "11.8.89")
    old = find_nvcc()
    assert old is not None
    assert (old.origin, is_recent_nvcc(old)) == ("PATH", False)
    bare.setattr(find, "provide_root", lambda: tmp_path / "wheels")
    nvcc(tmp_path / "wheels" / "bin" / "nvcc", "13.0.88")
    recent = find_nvcc()
    assert recent is not None
    assert (recent.origin, is_recent_nvcc(recent)) == ("CUDA wheels", True)


def test_cudacxx_that_does_not_exist_is_not_replaced(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nvcc(tmp_path / "bin" / "nvcc", "13.0.88")
    bare.setenv("CUDACXX", str(tmp_path / "none"))
    assert find_nvcc() is None


def test_a_cache_that_cannot_be_written_is_named(bare: pytest.MonkeyPatch) -> None:
    def refuse() -> Path:
        raise PermissionError(13, "Permission denied", "/home/me/.cache/kgen")

    bare.setattr(find, "provide_root", refuse)
    with pytest.raises(find.ToolchainError, match=r"kgen: Permission denied; set XDG_CACHE_HOME"):
        find_nvcc()
