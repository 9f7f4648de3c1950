"""Build a project so that it records what its workers do, run it, and hand out the records: `kgen trace`."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.paths import no_model
from kgen.report.recording import Recording
from kgen.report.traced_plan import read_plan
from kgen.runner import WEIGHTS, RunError, load_binding, packed_weights
from kgen.toolchain.build import build_project, choose_preset, is_kernel, read_model
from kgen.weights.layout import check_packed, read_layout

_PRESET_SUFFIX = "-timeline"


@dataclass(frozen=True)
class Load:
    """What is decoded: `batch` prompts of `prompt` tokens each, `tokens` new tokens for each."""

    batch: int
    prompt: int
    tokens: int


def record(
    project: Path,
    load: Load,
    *,
    weights: Path | None = None,
    preset: str = "auto",
    workers: int = 0,
    capacity: int = 0,
    jobs: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Recording:
    """Build the project with a timeline, decode `load` twice and return what the second time recorded.

    weights: a packed file or a checkpoint; None: the project's weights.bin, and where there is none random
    weights, which are kept in its build folder. workers: SMs or threads, 0: all. capacity: records of each
    track, 0: the library's default. Raises RunError, WeightsError or ToolchainError.
    """
    if is_kernel(project):
        raise RunError(no_model(project))
    model = read_model(project)
    try:
        _check_load(load, model["runtime"])
        plan = read_plan(model)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{project} was written by an older kgen; generate it again") from error
    folder = build_project(project, choose_preset(preset) + _PRESET_SUFFIX, jobs=jobs, progress=progress)
    if weights is None and not (project / WEIGHTS).is_file():
        packed = _random_weights(project, model)
    else:
        packed, _ = packed_weights(project, weights, None)
    binding = load_binding(project)
    library = folder / f"lib{plan.name}.so"
    prompts = [[(31 * s + 7 * i) % model["vocab"] for i in range(load.prompt)] for s in range(load.batch)]
    try:
        with binding.Model(packed, library=library, workers=workers, timeline_records=capacity) as loaded:
            for _ in range(2):  # the first time pages and caches are cold
                loaded.generate(prompts, max_new_tokens=load.tokens)
            timeline = loaded.timeline()
            used = loaded.info.workers
    except (binding.ModelError, RuntimeError, OSError) as error:
        raise RunError(f"{library}: {error}") from error
    return Recording(timeline.records, plan, used, timeline.dropped, timeline.first_cut_step)


def _check_load(load: Load, runtime: dict[str, Any]) -> None:
    """Raises RunError for more than the model was generated for, before anything of that size is made."""
    batch, context = runtime["batch"], runtime["context"]
    wrong = []
    if load.batch > batch:
        wrong.append(f"a batch of {load.batch}, but the model is for 1..{batch}")
    for what, tokens in (("a prompt", load.prompt), ("an answer", load.tokens)):
        if tokens > context:
            wrong.append(f"{what} of {tokens} tokens, but the model's context is 1..{context}")
    if wrong:
        raise RunError("; ".join(wrong))


def _random_weights(project: Path, model: dict[str, Any]) -> Path:
    """The file that the project's own tests would make, made where it is not there yet."""
    layout = read_layout(project)
    path = project / "build" / f"random-{layout.digest[:16]}.bin"
    if path.is_file():
        check_packed(path, layout)
        return path
    file = project / "tests" / "packed.py"
    spec = importlib.util.spec_from_file_location("packed", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise RunError(f"{file} is missing; generate the project again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        module.write_random(model, Path(scratch) / path.name)
        os.replace(Path(scratch) / path.name, path)
    check_packed(path, layout)
    return path
