"""The toolkit folder made from wheels, with small stand-ins for the wheels' files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgen.toolchain.cuda_wheels import provide_root

PARTS = {
    "bin/nvcc": "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n",
    "bin/ptxas": "ptxas",
    "bin/crt/link.stub": "stub",
    "nvvm/bin/cicc": "cicc",
    "nvvm/libdevice/libdevice.10.bc": "bitcode",
    "include/cuda_runtime.h": "runtime",
    "include/cccl/cuda/atomic": "atomic",
    "lib/libcudart_static.a": "static",
    "lib/libcudart.so.13": "shared",
}


def install(site: Path, files: dict[str, str]) -> Path:
    for relative, text in files.items():
        file = site / "nvidia" / relative
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return site


@pytest.fixture
def cuda13(tmp_path: Path) -> Path:
    """Wheels that share one folder."""
    return install(tmp_path / "site", {f"cu13/{path}": text for path, text in PARTS.items()})


def test_root_has_the_layout_of_a_toolkit(cuda13: Path, tmp_path: Path) -> None:
    root = provide_root(cuda13, tmp_path / "cache")
    assert root is not None
    assert root.parent == tmp_path / "cache"
    for path, text in PARTS.items():
        assert (root / path).read_text() == text
    assert (root / "lib64" / "libcudart.so").read_text() == "shared"
    assert (root / "lib64" / "libcudart_static.a").read_text() == "static"
    # nvcc looks for its parts beside itself: no folder on the way may lead back into the wheels.
    assert not any((root / folder).is_symlink() for folder in ("bin", "include", "nvvm", "nvvm/bin"))


def test_wheels_with_a_folder_each_are_merged(tmp_path: Path) -> None:
    owner = {"bin": "cuda_nvcc", "nvvm": "nvvm", "include": "cuda_runtime", "lib": "cuda_runtime"}
    site = install(tmp_path / "site", {f"{owner[p.split('/')[0]]}/{p}": text for p, text in PARTS.items()})
    root = provide_root(site, tmp_path / "cache")
    assert root is not None
    for path, text in PARTS.items():
        assert (root / path).read_text() == text


def test_the_second_call_finds_the_root(cuda13: Path, tmp_path: Path) -> None:
    first = provide_root(cuda13, tmp_path / "cache")
    assert first is not None
    made = first.stat().st_mtime_ns
    assert provide_root(cuda13, tmp_path / "cache") == first
    assert first.stat().st_mtime_ns == made
    assert os.listdir(tmp_path / "cache") == [first.name]


def test_other_wheels_get_another_root(cuda13: Path, tmp_path: Path) -> None:
    first = provide_root(cuda13, tmp_path / "cache")
    install(cuda13, {"cu13/bin/ptxas": "a newer ptxas"})
    assert provide_root(cuda13, tmp_path / "cache") != first


@pytest.mark.parametrize("missing", ["bin/ptxas", "nvvm/bin/cicc", "include/cuda_runtime.h"])
def test_an_incomplete_set_of_wheels_is_no_toolkit(cuda13: Path, tmp_path: Path, missing: str) -> None:
    (cuda13 / "nvidia" / "cu13" / missing).unlink()
    assert provide_root(cuda13, tmp_path / "cache") is None
    assert not (tmp_path / "cache").exists()


def test_no_wheels_no_root(tmp_path: Path) -> None:
    assert provide_root(tmp_path, tmp_path / "cache") is None


def test_makers_at_once_agree(cuda13: Path, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\nfrom kgen.toolchain.cuda_wheels import provide_root\n"
        "print(provide_root(*map(pathlib.Path, sys.argv[1:])))\n"
    )
    command = [sys.executable, "-c", program, str(cuda13), str(tmp_path / "cache")]
    makers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = {maker.communicate()[0] for maker in makers}
    assert [maker.returncode for maker in makers] == [0] * 4
    assert len(answers) == 1
    assert len(os.listdir(tmp_path / "cache")) == 1
