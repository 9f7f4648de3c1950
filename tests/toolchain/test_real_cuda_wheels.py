"""The compiler of the extra `cuda`, as it comes from the package index, builds a project."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kgen.toolchain.cuda_wheels import provide_root

ROOT = Path(__file__).parents[2]
KGEN = Path(sys.executable).parent / "kgen"


@pytest.fixture(scope="module")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """nvcc from the packages that the extra names and from nothing else."""
    folder = tmp_path_factory.mktemp("wheels")
    with (ROOT / "pyproject.toml").open("rb") as file:
        packages = tomllib.load(file)["project"]["optional-dependencies"]["cuda"]
    install = [sys.executable, "-m", "pip", "--quiet", "install", "--target", folder / "site", *packages]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "No matching distribution" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    root = provide_root(folder / "site", folder / "cache")
    assert root is not None
    return root / "bin" / "nvcc"


@pytest.mark.slow
def test_builds_a_project_without_a_system_toolkit(nvcc: Path, tmp_path: Path) -> None:
    environment = os.environ | {"CUDACXX": str(nvcc), "PATH": "/usr/bin:/bin"}
    project = tmp_path / "tiny"
    subprocess.run([KGEN, "generate", "tiny", "-o", project], check=True)
    build = [KGEN, "build", project, "--preset", "cuda"]
    done = subprocess.run(build, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (project / "build" / "cuda" / "libtiny.so").is_file()
    folder = project / "build" / "cuda"
    commands = "".join((folder / file).read_text() for file in ("build.ninja", "CMakeFiles/rules.ninja"))
    assert str(nvcc) in commands
    assert "/usr/local/cuda" not in commands
