"""The kernels in README.md can be generated as they stand there."""

import re
from pathlib import Path

import pytest

from tests.cli.process import ROOT, kgen

BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
KERNELS = {
    re.findall("^name: (.*)$", text, re.MULTILINE)[0]: text for text in BLOCKS if "kind: kernel" in text
}


def test_there_are_kernels() -> None:
    assert list(KERNELS) == ["gemm_rs", "row_parallel"]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_can_be_generated(name: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(KERNELS[name])
    done = kgen("generate", spec, "-o", tmp_path / "out")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (tmp_path / "out" / "include" / name / f"{name}.h").is_file()
