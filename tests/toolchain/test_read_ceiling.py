"""The program that measures how fast memory can be read compiles for every chip, with what the chip has."""

import subprocess
from pathlib import Path

import pytest

from kgen.paths import project_templates
from kgen.toolchain.cuda_wheels import GET_WHEELS
from kgen.toolchain.find import find_nvcc


@pytest.mark.parametrize(("chip", "bulk"), [("80", False), ("90a", True), ("100a", True), ("120a", True)])
def test_compiles(chip: str, bulk: bool, tmp_path: Path) -> None:
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip(f"there is no nvcc here: {GET_WHEELS}")
    project = project_templates()
    flags = ["-std=c++20", "-DPK_CUDA=1", "-Xcompiler=-Wall,-Wextra", f"-I{project / 'include'}", "--keep"]
    code = f"-gencode=arch=compute_{chip},code=sm_{chip}"
    source = project / "bench" / "read_ceiling.cu"
    command = [nvcc.path, *flags, code, "-cubin", "-o", "read_ceiling.cubin", source]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    ptx = (tmp_path / "read_ceiling.ptx").read_text()
    assert ("cp.async.bulk.shared::cluster.global.mbarrier" in ptx) == bulk
    assert ("ld.global.nc.L1::no_allocate" in ptx) != bulk
