"""`kgen bench` on the host."""

import json
from pathlib import Path

import pytest

from tests.cli.process import kgen, one_sentence


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "tiny"
    assert kgen("generate", "tiny", "-o", folder).returncode == 0
    return folder


def test_figures_as_a_table_and_as_json(tiny: Path) -> None:
    """The project is built on the way."""
    cases = ("--case", "1x20", "--case", "4x30", "--preset", "host", "--no-torch", "--steps", "40")
    table = kgen("bench", tiny, *cases)
    assert (table.returncode, table.stderr) == (0, "")
    assert [line.split()[:2] for line in table.stdout.splitlines()[2:4]] == [["1", "20"], ["4", "30"]]
    report = json.loads(kgen("bench", tiny, *cases, "--json").stdout)
    assert [(row["batch"], row["context"]) for row in report["cases"]] == [(1, 20), (4, 30)]
    assert all(row["logits_correct"] and row["endurance"]["steps"] == 40 for row in report["cases"])


def test_wrong_output_is_1(tiny: Path, tmp_path: Path) -> None:
    """Of the reference, here: the check cannot tell which side is wrong."""
    project = tmp_path / "tiny"
    assert kgen("generate", "tiny", "-o", project).returncode == 0
    reference = project / "tests" / "reference.py"
    reference.write_text(reference.read_text().replace('t["table"][ids]', '0.5 * t["table"][ids]'))
    done = kgen("bench", project, "--case", "1x20", "--preset", "host", "--no-torch", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["cases"][0]["logits_correct"] is False


def test_weights_that_are_not_there(tiny: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    done = kgen("bench", tiny, "--preset", "host", "--weights", missing, "--no-torch")
    assert str(missing) in one_sentence(done, 2)


def test_a_case_that_is_none(tiny: Path) -> None:
    done = kgen("bench", tiny, "--case", "1x")
    assert one_sentence(done, 2) == "--case: '1x' is not BATCHxCONTEXT, such as 4x1024"


def test_a_model_has_no_ranks(tiny: Path) -> None:
    done = kgen("bench", tiny, "--world", "2")
    assert one_sentence(done, 2) == f"{tiny} is the project of a model, whose bench has no --world"


@pytest.fixture(scope="module")
def gemm_rs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "gemm_rs"
    assert kgen("generate", "gemm_rs", "-o", folder).returncode == 0
    return folder


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--steps", "3"), "{} is the project of a kernel, whose bench has no --steps"),
        (("--weights", "x"), "{} is the project of a kernel, whose bench has no --weights"),
        (("--no-torch",), "{} is the project of a kernel, whose bench has no --no-torch"),
        (("--preset", "host"), "the bench of a kernel runs on GPUs: --preset cuda, not host"),
        (("--world", "3"), "--world 3: the numbers of ranks of gemm_rs are 1, 2, 4, 8"),
        (("--case", "1x64"), "--case 1x64: '1x64' is not one of M=1..32768, N=4096..4096, K=8192..8192"),
    ],
)
def test_what_the_bench_of_a_kernel_does_not_take(
    gemm_rs: Path, options: tuple[str, ...], sentence: str
) -> None:
    assert one_sentence(kgen("bench", gemm_rs, *options), 2) == sentence.format(gemm_rs)
    assert not (gemm_rs / "build").exists()


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("raise ImportError('it is broken')", "the bench needs PyTorch in "),
        ("class cuda:\n    device_count = lambda: 1", "a GPU for each of 2 ranks, and PyTorch finds 1"),
    ],
)
def test_a_machine_on_which_kernels_cannot_be_timed(
    gemm_rs: Path, tmp_path: Path, source: str, sentence: str
) -> None:
    """With a PyTorch of a few words."""
    (tmp_path / "torch.py").write_text(source + "\n")
    done = kgen("bench", gemm_rs, "--json", PYTHONPATH=str(tmp_path))
    assert sentence in one_sentence(done, 2)
    assert not (gemm_rs / "build").exists()
