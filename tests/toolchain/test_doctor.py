import json
from pathlib import Path

import pytest

from kgen.toolchain import doctor
from kgen.toolchain.cuda_wheels import GET_WHEELS
from kgen.toolchain.doctor import diagnose
from kgen.toolchain.find import Tool, find_cxx
from kgen.toolchain.gpu import Gpu

H200 = Gpu("NVIDIA H200", (9, 0), 132)


def tool(name: str, version: str = "99.0") -> Tool:
    return Tool(name, Path("/usr/bin") / name, "PATH", version)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with everything; tests take things away."""
    monkeypatch.setattr(doctor, "find_cmake", lambda: tool("cmake"))
    monkeypatch.setattr(doctor, "find_ninja", lambda: tool("ninja"))
    monkeypatch.setattr(doctor, "find_nvcc", lambda: tool("nvcc", "13.0.88"))
    monkeypatch.setattr(doctor, "find_gpus", lambda: [H200])
    return monkeypatch


def test_a_machine_with_everything(machine: pytest.MonkeyPatch) -> None:
    report = diagnose()
    assert (report.host, report.cuda_build, report.cuda_run) == (True, True, True)
    gpu = next(check for check in report.checks if check.name == "GPU")
    assert gpu.found == "NVIDIA H200 (sm_90, 132 SMs)"


def test_without_nvcc_the_wheels_are_proposed(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(doctor, "find_nvcc", lambda: None)
    report = diagnose()
    assert (report.host, report.cuda_build, report.cuda_run) == (True, False, False)
    nvcc = next(check for check in report.checks if check.name == "CUDA compiler")
    assert nvcc.remedy.startswith(GET_WHEELS)
    assert "kgen[cuda]" not in nvcc.remedy  # that name is another package's on PyPI


@pytest.mark.parametrize(("version", "fit"), [("12.7.99", False), ("12.8.0", True), ("13.0.88", True)])
def test_nvcc_must_know_the_newest_chips(machine: pytest.MonkeyPatch, version: str, fit: bool) -> None:
    machine.setattr(doctor, "find_nvcc", lambda: tool("nvcc", version))
    assert diagnose().cuda_build is fit


def test_without_a_gpu_projects_can_still_be_built(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(doctor, "find_gpus", list)
    report = diagnose()
    assert (report.cuda_build, report.cuda_run) == (True, False)


@pytest.mark.parametrize("missing", ["find_cmake", "find_ninja", "find_cxx"])
def test_without_a_build_tool_nothing_can_be_built(machine: pytest.MonkeyPatch, missing: str) -> None:
    machine.setattr(doctor, missing, lambda: None)
    report = diagnose()
    assert (report.host, report.cuda_build) == (False, False)
    assert [check.remedy for check in report.checks if not check.ok] != [""]


def test_a_compiler_that_cannot_do_cxx20_is_unfit(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = find_cxx()
    assert real is not None
    old = tmp_path / "old-g++"
    old.write_text(f'#!/bin/sh\nexec {real.path} "$@" -std=c++14\n')
    old.chmod(0o755)
    machine.setattr(doctor, "find_cxx", lambda: Tool("old-g++", old, "CXX", "4.9"))
    report = diagnose()
    assert not report.host
    assert "C++20" in next(check.remedy for check in report.checks if not check.ok)


def test_json_says_the_same(machine: pytest.MonkeyPatch) -> None:
    report = json.loads(json.dumps(diagnose().to_json()))
    assert (report["host"], report["cuda_build"], report["cuda_run"]) == (True, True, True)
    assert {check["name"] for check in report["checks"]} >= {"CMake", "Ninja", "CUDA compiler", "GPU"}
