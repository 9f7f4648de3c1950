"""The harness that a kernel's project carries passes on the host, also under ThreadSanitizer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kgen.passes.kernel.pipeline import compile_kernel
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.toolchain.build import build_project
from kgen.toolchain.find import find_cxx
from tests.kernels import AG_ALL, AG_KEEP, AR, AR_ALL, COLLECTIVES, IN_NETWORK, RS, RS_ALL, kernel

from .test_harness import sanitizer

INTER_SM = {
    name: text.replace("outputs:", "overlap: {comm_sms: 2}\noutputs:").replace("M: 1..64", "M: 1..1024")
    for name, text in {"ag_inter_sm": AG_ALL, "rs_inter_sm": RS, "ar_inter_sm": AR}.items()
}
COPIES = AG_ALL.replace("outputs:", "overlap: {transfer: copy_engine}\noutputs:")
KEEP_COPIES = COPIES.replace("outputs: [c]", "outputs: [c, a_full]")
KERNELS = {
    **{"rs": RS, "ar": AR, "rs_all": RS_ALL, "ar_all": AR_ALL},
    **{"copies": COPIES, "keep": AG_KEEP, "keep_copies": KEEP_COPIES},
    **INTER_SM,
    **COLLECTIVES,
    "network": IN_NETWORK,
}

# A library that finds no GPU: `create` fails, and the rest is not called.
NO_GPU = """\
#define CALLED(name, value) extern "C" auto small_##name() { return value; }
CALLED(abi_version, %ABI%u)
CALLED(create, 5)
CALLED(last_error, "rank 0: no GPU is visible")
CALLED(status_name, "") CALLED(destroy, 0) CALLED(get_info, 0) CALLED(run, 0) CALLED(wait, 0) CALLED(share, 0)
"""


def write(text: str, folder: Path) -> Path:
    write_tree(render_project(compile_kernel(kernel(text))), folder)
    return folder


def harness(project: Path, library: Path, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys", project / "tests"],
        env=os.environ | {"SMALL_LIBRARY": str(library)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_host(name: str, tmp_path: Path) -> None:
    project = write(KERNELS[name], tmp_path / "small")
    code, output = harness(project, build_project(project, "host") / "libsmall.so")
    assert code == 0, output
    assert re.search(r"^\d+ passed", output, re.MULTILINE), output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keep_copies", "ar_all", "ar_inter_sm", "all_reduce", "network"])
def test_thread_sanitizer(name: str, tmp_path: Path) -> None:
    project = write(KERNELS[name], tmp_path / "small")
    library = build_project(project, "host-tsan") / "libsmall.so"
    options = f"suppressions={project / 'tests' / 'tsan.supp'}"
    code, output = harness(project, library, LD_PRELOAD=sanitizer(), TSAN_OPTIONS=options)
    assert "WARNING: ThreadSanitizer" not in output, output
    assert code == 0, output


@pytest.mark.parametrize("name", ["rs", "all_reduce"])
def test_without_a_gpu_it_says_so_once(name: str, tmp_path: Path) -> None:
    project = write(KERNELS[name], tmp_path / "small")
    library, source = tmp_path / "no_gpu.so", tmp_path / "no_gpu.cpp"
    header = (project / "include" / "small" / "small.h").read_text()
    (version,) = re.findall(r"define SMALL_ABI_VERSION (\d+)", header)
    source.write_text(NO_GPU.replace("%ABI%", version))
    cxx = find_cxx()
    assert cxx is not None
    subprocess.run([cxx.path, "-shared", "-fPIC", source, "-o", library], check=True)
    code, output = harness(project, library)
    assert code == 2, output
    assert output.count("no GPU is visible") == 1
    assert f"{library} needs a GPU that it can use: rank 0: no GPU is visible" in output
    assert not re.search("passed|failed|error|Traceback", output), output
