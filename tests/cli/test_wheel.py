"""The wheel carries everything: kgen works from an environment that has nothing of the checkout."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `kgen` of an environment into which the wheel was installed.

    Its dependencies are those of this environment, so that nothing is fetched.
    """
    folder = tmp_path_factory.mktemp("wheel")
    environment = folder / "environment"
    venv.create(environment, with_pip=False)
    packages = next(environment.glob("lib/python*/site-packages"))
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", ROOT, "-w", folder], check=True)
    (wheel,) = folder.glob("kgen-*.whl")
    # Before the line that adds this environment's packages, where kgen is installed from the checkout.
    target = packages / "first"
    subprocess.run([*pip, "install", "--no-deps", wheel, "--target", target], check=True)
    (packages / "paths.pth").write_text(f"{target}\n{sysconfig.get_path('purelib')}\n")
    script = environment / "bin" / "kgen"
    python = environment / "bin" / "python"
    script.write_text(f"#!{python}\nfrom kgen.cli import main\nmain()\n")
    script.chmod(0o755)
    return script


def test_the_wheel_is_what_runs(installed: Path, tmp_path: Path) -> None:
    command = [installed.parent / "python", "-c", "import kgen; print(kgen.__file__)"]
    file = Path(subprocess.check_output(command, cwd=tmp_path, text=True).strip())
    assert installed.parents[1] in file.parents


def test_generates_the_same_project_elsewhere(installed: Path, tmp_path: Path) -> None:
    here = Path(sys.executable).parent / "kgen"
    subprocess.run([installed, "generate", "tiny", "-o", tmp_path / "wheel"], cwd=tmp_path, check=True)
    subprocess.run([here, "generate", "tiny", "-o", tmp_path / "checkout"], check=True)
    compare = ["diff", "-r", tmp_path / "wheel", tmp_path / "checkout"]
    assert subprocess.run(compare, capture_output=True, text=True, check=False).stdout == ""


def test_lists_the_specs(installed: Path, tmp_path: Path) -> None:
    names = subprocess.check_output([installed, "list"], cwd=tmp_path, text=True).splitlines()
    assert names == sorted(path.stem for path in (ROOT / "specs").glob("*/*.yaml"))
