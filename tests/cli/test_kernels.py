"""Kernels on the command line: read, expanded, compiled, explained, and refused at a place."""

import json
from pathlib import Path

import pytest

from tests.cli.process import ROOT, kgen

SPEC = ROOT / "specs/kernels/gemm_rs.yaml"


def test_check() -> None:
    done = kgen("check", "gemm_rs")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "gemm_rs: correct; 2 operators, 4 tensors, world 1, 2, 4 or 8\n"
    assert json.loads(kgen("check", "gemm_rs", "--json").stdout) == []


def test_check_of_a_wrong_kernel(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.read_text().replace("in: c, out: d", "in: cc, out: d"))
    done = kgen("check", spec)
    assert done.returncode == 2
    assert f"{spec}:16:30: error: unknown tensor 'cc'\n" in done.stderr
    assert "\n16 |   - {op: reduce_scatter, in: cc, out: d, axis: 0}\n" in done.stderr
    assert done.stderr.endswith("  = did you mean 'c'?\n")
    (error,) = json.loads(kgen("check", spec, "--json").stdout)
    assert (error["line"], error["col"], error["hint"]) == (16, 30, "c")


def test_expand(tmp_path: Path) -> None:
    expanded = tmp_path / "expanded.yaml"
    expanded.write_text(kgen("expand", "gemm_rs").stdout)
    assert "c: {shape: [M, N], dtype: bf16, partial: true}" in expanded.read_text()
    assert kgen("expand", expanded).stdout == expanded.read_text()


def test_generate_and_generate_again(tmp_path: Path) -> None:
    project = tmp_path / "out"
    done = kgen("generate", "gemm_rs", "-o", project)
    assert (done.returncode, done.stdout) == (0, "")
    about = json.loads((project / "kernel.json").read_text())
    assert (about["name"], about["kind"], about["world"]) == ("gemm_rs", "gemm_rs", {"lo": 1, "hi": 8})
    assert kgen("generate", "gemm_rs", "-o", project, "--check").returncode == 0
    assert kgen("generate", "gemm_rs", "-o", project, "--diff").stdout == ""
    (project / "kernel.json").write_text("{}")
    assert kgen("generate", "gemm_rs", "-o", project, "--check").returncode == 1
    done = kgen("generate", "gemm_rs", "-o", project)
    assert (done.returncode, "kernel.json" in done.stderr) == (2, True)


@pytest.mark.parametrize("command", ["check", "generate", "explain"])
def test_what_the_runtime_does_not_have_is_said_at_the_operator(command: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    text = SPEC.with_name("gemm.yaml").read_text().replace("world: 1", "world: 1..8")
    for name, shape in (("a", "[M, K]"), ("c", "[M, N]")):
        text = text.replace(f"{name}: {{shape: {shape},", f"{name}: {{shape: {shape}, shard: {{axis: 0}},")
    spec.write_text(text)
    line = text[: text.index("{op: matmul")].count("\n") + 1
    done = kgen(command, spec, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    message = "matmul: a product of rows that are sharded (`a`) is not there yet without all_gather"
    assert f"{spec}:{line}:10: error: {message}\n" in done.stderr
    assert done.stderr.endswith("  = expected an all_gather of `a` before it\n")
    assert list(tmp_path.iterdir()) == [spec]


@pytest.mark.parametrize("world", ["0", "17", "8..100"])
def test_a_world_that_cannot_be_is_said_once(world: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.read_text().replace("1..8", world))
    errors = json.loads(kgen("check", spec, "--json").stdout)
    said = [(e["message"], e["expected"]) for e in errors]
    assert said == [(f"a world of {world} ranks is not possible", "1 to 16 ranks")]


def test_what_the_runtime_cannot_choose_is_said_at_the_choice(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.read_text() + "overlap: {tile: [64, 256, 64]}\n")
    done = kgen("check", spec)
    assert done.returncode == 2
    assert f"{spec}:20:17: error: a tile of 64 x 256 x 64 is not there yet\n" in done.stderr
    assert done.stderr.endswith("  = expected [128, 256, 64]\n")


def test_explain() -> None:
    done = kgen("explain", "gemm_rs", "--dims", "M=4096", "--world", "2")
    assert done.returncode == 0
    for words in ("what was chosen", "intra_sm", "worth fusing", "protocol checked"):
        assert words in done.stdout
    report = json.loads(kgen("explain", "gemm_rs", "--dims", "M=4096", "--json").stdout)
    (prediction,) = report["predictions"]
    assert prediction["sizes"] == {"M": 4096}
    assert prediction["world"] == 2


def test_explain_says_what_gathers_rows() -> None:
    done = kgen("explain", "ag_gemm", "--world", "2")
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.replace("│", " ").split())
    for words in (
        "copy_engine from 32",
        "The copy engine sends at M",
        "three or four calls",
        "both, register first",
        "both, copy_engine first",
    ):
        assert words in said
    report = json.loads(kgen("explain", "ag_gemm", "--dims", "M=8192", "--json").stdout)
    assert [p["transfer"] for p in report["predictions"]] == ["copy_engine"]
    assert report["samples"][-1]["transfers"] == ["copy_engine"] * 3


def test_explain_says_what_becomes_of_few_rows() -> None:
    done = kgen("explain", "gemm_ar", "--dims", "M=8")
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("few rows", "M * (world - 1) up to 128"):
        assert words in done.stdout


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
def test_collectives(name: str) -> None:
    assert kgen("check", name).stderr.startswith(f"{name}: correct; 1 operator, 2 tensors, world 1, 2, ")
    done = kgen("explain", name, "--dims", "M=32768")
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("what was chosen", "register", "MB sent", "faster than NCCL", "begun"):
        assert words in done.stdout
    said = " ".join(done.stdout.replace("│", " ").split())
    for words in ("one up to 1 MiB", "8 KiB", "128", "`sms`"):
        assert (words in said) == (name == "all_reduce")
    report = json.loads(kgen("explain", name, "--dims", "M=64", "--world", "2", "--json").stdout)
    (prediction,) = report["predictions"]
    assert prediction["shots"] == (1 if name == "all_reduce" else 0)


def test_explain_sms_that_only_communicate(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    text, unmeasured = SPEC.with_name("gemm_ar.yaml").read_text(), "No run with SMs that only communicate"
    for overlap, chosen in (("schedule: intra_sm", False), ("comm_sms: 8", True)):
        spec.write_text(f"{text}overlap: {{{overlap}}}\n")
        done = kgen("explain", spec, "--dims", "M=4096", "--world", "2")
        assert done.returncode == 0, done.stderr
        said = " ".join(done.stdout.replace("│", " ").split())
        for words in ("inter_sm", "it has SMs that only communicate", unmeasured):
            assert (words in said) == chosen


def test_a_collective_has_nothing_to_overlap_with(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    text = SPEC.with_name("all_gather.yaml").read_text()
    asked = "schedule: intra_sm, tile: [128, 256, 64], stages: 4"
    spec.write_text(f"{text}overlap: {{{asked}, comm_sms: 8}}\n")
    errors = json.loads(kgen("check", spec, "--json").stdout)
    keys = ("schedule", "tile", "stages")
    said = [f"there is no matmul, so {key} has no meaning" for key in keys]
    said.append("there is no matmul to overlap with, so all SMs communicate")
    assert [e["message"] for e in errors] == said
    assert [e["expected"] for e in errors] == [f"no {key}" for key in (*keys, "comm_sms")]
    spec.write_text(f"{text}overlap: {{transfer: register}}\n")
    assert kgen("check", spec).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gemm_rs", "--dims", "M"), "--dims: 'M' is not NAME=NUMBER, such as M=4096\n"),
        (("gemm_rs", "--dims", "M=40000"), "M is 40000, which is not in 1..32768\n"),
        (("gemm_rs", "--dims", "M=0"), "M is 0, which is not in 1..32768\n"),
        (("gemm_rs", "--dims", "M=1,M=2"), "--dims: M is given twice\n"),
        (("gemm_rs", "--world", "3"), "K is 8192, which 3 ranks cannot divide\n"),
        (("gemm_rs", "--batch", "3"), "gemm_rs is a kernel, which has no --batch\n"),
        (("tiny", "--world", "3"), "tiny is a model, which has no --world\n"),
    ],
)
def test_explain_of_what_cannot_be(arguments: tuple[str, ...], message: str) -> None:
    done = kgen("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == message


def test_a_project_of_another_name_is_left_alone(tmp_path: Path) -> None:
    project = tmp_path / "out"
    kgen("generate", "gemm_rs", "-o", project)
    before = {file: file.read_bytes() for file in project.rglob("*") if file.is_file()}
    done = kgen("generate", "all_reduce", "-o", project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        f"{project} is the project of gemm_rs, not of all_reduce. Nothing was written."
    )
    assert before == {file: file.read_bytes() for file in project.rglob("*") if file.is_file()}
    assert kgen("generate", "all_reduce", "-o", project, "--force").returncode == 0
    assert json.loads((project / "kernel.json").read_text())["name"] == "all_reduce"
    assert kgen("generate", "all_reduce", "-o", project).returncode == 0


@pytest.mark.parametrize("command", ["check", "generate", "explain"])
def test_what_is_no_regular_file(command: str, tmp_path: Path) -> None:
    done = kgen(command, "/dev/null", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: this is not a regular file" in done.stderr


def test_a_kernel_has_no_drawing() -> None:
    done = kgen("graph", "gemm_rs")
    assert (done.returncode, done.stderr) == (2, "gemm_rs is a kernel, and this is for models\n")
