"""The cluster worker without a GPU: a generated project's CUDA code on the emulator, in several orders."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgen.frontend.build import build_graph
from kgen.passes.pipeline import compile_graph
from kgen.render.project import render_project
from kgen.render.writer import write_tree
from kgen.spec.load import load_spec

from . import emulate

pytestmark = pytest.mark.slow
NAME = "tiny_decoder"
SPEC = Path(__file__).parents[2] / "specs" / "models" / "tiny-decoder.yaml"
CLUSTERS = 9  # one more than there are KV heads: it has no attention


@dataclass(frozen=True)
class Job:
    """A part of the project's harness, in the order that a seed gives."""

    seed: int
    tests: tuple[str, ...]
    prefill: bool = False  # else the decode kernels read the prompts, too


MIXED = "test_mixed_batches.py"
WORKER, SHORT, LONG, DRAWN = (
    f"{MIXED}::test_{name}"
    for name in (
        "the_cluster_worker_runs",
        "batches_of_mixed_lengths",
        "long_prompts",
        "drawn_tokens_do_not_depend_on_the_order",
    )
)
JOBS = {
    "mixed-1": Job(1, (WORKER, SHORT, DRAWN)),
    "prefill-1": Job(7, (WORKER, SHORT, LONG), prefill=True),
    "prefill-2": Job(8, (LONG,), prefill=True),
    "reference": Job(
        4,
        (
            *(f"test_reference.py::test_greedy_tokens_and_logits[{length}]" for length in (1, 2, 16, 17)),
            "test_reference.py::test_score_prompt_changes_no_token",
            "test_reference.py::test_logprobs_of_generated_tokens_are_those_of_the_logits",
        ),
    ),
    "batching": Job(
        5,
        (
            "test_batching.py::test_every_batch_size",
            "test_batching.py::test_chunks_give_what_single_rows_give",
            "test_batching.py::test_small_cache",
        ),
    ),
    "mixed-2": Job(2, (SHORT,)),
    "sampling": Job(
        6,
        (
            "test_sampling.py::test_stop_token_ends_the_sequence",
            "test_sampling.py::test_others_go_on_after_one_stops",
        ),
    ),
}


def write_project(spec: Path, folder: Path) -> None:
    write_tree(render_project(compile_graph(build_graph(load_spec(spec)))), folder)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emulator") / NAME
    write_project(SPEC, folder)
    shutil.copy(emulate.HERE / "harness_mixed.py", folder / "tests" / MIXED)
    return folder


@pytest.fixture(scope="module")
def libraries(project: Path) -> dict[bool, Path]:
    """With the prefill kernel, and without."""
    return {
        prefill: emulate.build(project, project / "build" / f"prefill-{prefill}", prefill=prefill)
        for prefill in (False, True)
    }


@pytest.fixture(scope="module")
def results(
    project: Path, libraries: dict[bool, Path]
) -> Iterator[dict[str, Future[subprocess.CompletedProcess[str]]]]:
    """All jobs, two at a time: each has one thread."""

    def run(job: Job) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--durations=5",
            *job.tests,
        ]
        return subprocess.run(
            command,
            cwd=project / "tests",
            env=emulate.environment(libraries[job.prefill], NAME, job.seed, CLUSTERS),
            capture_output=True,
            text=True,
            timeout=900,
        )

    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(run, job) for name, job in JOBS.items()}


@pytest.mark.parametrize("job", JOBS)
def test_harness(results: dict[str, Future[subprocess.CompletedProcess[str]]], job: str) -> None:
    done = results[job].result()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_prompts_are_in_the_timeline(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    write_project(SPEC, folder)
    shutil.copy(emulate.HERE / "harness_timeline.py", folder / "tests" / "test_prompts.py")
    library = emulate.build(folder, tmp_path / "out", timeline=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_prompts.py"],
        cwd=folder / "tests",
        env=emulate.environment(library, NAME, 10, CLUSTERS),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_an_ffn_for_fewer_clusters_than_there_are(tmp_path: Path) -> None:
    text = SPEC.read_text()
    assert "ffn: 1024" in text
    spec, folder = tmp_path / "small.yaml", tmp_path / NAME
    spec.write_text(text.replace("ffn: 1024", "ffn: 608"))  # 19 chunks: for 9 of 11 clusters
    write_project(spec, folder)
    library = emulate.build(folder, tmp_path / "out")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "test_batching.py::test_small_cache",
            "test_reference.py::test_greedy_tokens_and_logits[17]",
        ],
        cwd=folder / "tests",
        env=emulate.environment(library, NAME, 9, 11),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_never_comes_is_reported(project: Path, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "gpu" / "lost.py"
    copy = tmp_path / NAME
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("build"))
    subprocess.run([sys.executable, script, "patch", copy], check=True, timeout=60)
    library = emulate.build(copy, tmp_path / "out")
    done = subprocess.run(
        [sys.executable, script, "check", copy, library],
        env=emulate.environment(library, NAME, 3, CLUSTERS),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_emulator_itself(tmp_path: Path) -> None:
    include = Path(__file__).parents[2] / "templates" / "project" / "include"
    units = sorted((emulate.HERE / "units").glob("*.cpp"))
    objects = emulate.compile_all(units, tmp_path, ["-include", "cuda_runtime.h", f"-I{include}"])
    objects += emulate.emulator_objects(tmp_path)
    emulate.run([emulate.CXX, "-o", str(tmp_path / "units"), *map(str, objects), "-ldl"])
    done = subprocess.run([tmp_path / "units"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    # Who waits for what is told.
    assert "waits at the mbarrier at offset 0 for phase 0, which lacks 1 arrivals and 0 bytes" in done.stderr
