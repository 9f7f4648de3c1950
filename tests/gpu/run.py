"""Everything a machine with a GPU is asked to show, in one call: `ci/gpu.sh [quick|full]`.

Builds the generated projects under --projects (or generates them when kgen can be imported), runs their
harnesses, the task checks, compute-sanitizer, the comparison with transformers, repeated runs and benches.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "templates" / "project" / "bench"))

from machine import about
from stage import Run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXACT = ("llama_3_2_1b", "qwen3_0_6b")  # compared with transformers at their real shapes
SMALL = ("tiny", "tiny_decoder")  # in full by their harness, and under the sanitizer
GENERAL_WORKERS = 128  # a number of workers asks for the general worker; of any Hopper GPU all these fit
SPECS = ("tiny", "tiny-decoder", "smollm2-135m", "llama-3.2-1b", "qwen3-0.6b")
LARGE_SPECS = ("qwen3-1.7b", "qwen3-8b")  # only timed, and only in a full run
CASES = {  # of a full run, BATCHxCONTEXT
    "llama_3_2_1b": ("1x64", "8x64", "1x1024", "16x1024"),
    "qwen3_0_6b": ("1x64", "1x1024", "16x1024"),
    "qwen3_1_7b": ("1x64",),
    "qwen3_8b": ("1x64", "8x1024"),
}


def generate(run: Run, projects: Path, full: bool) -> None:
    """Generate the projects here when none were brought along."""
    for spec in SPECS + (LARGE_SPECS if full else ()):
        source = ROOT / "specs" / "models" / f"{spec}.yaml"
        command = [sys.executable, "-m", "kgen.cli", "generate", source, "-o", projects / spec]
        run.stage(f"generate {spec}", command, 60, env={"PYTHONPATH": str(ROOT)})


def build(run: Run, project: Path) -> Path | None:
    """Configure and build the CUDA preset; the library, or None."""
    name = json.loads((project / "model.json").read_text())["name"]
    script = f"cd '{project}' && cmake --preset cuda && cmake --build --preset cuda -j {os.cpu_count()}"
    if not run.stage(f"build {name}", ["bash", "-c", script], 300):
        return None
    return project / "build" / "cuda" / f"lib{name}.so"


def bench(run: Run, project: Path, library: Path, full: bool) -> None:
    """The project's own bench: steps, the read ceiling, PyTorch and the checks in one run."""
    name = json.loads((project / "model.json").read_text())["name"]
    figures = run.out / f"bench-{name}.json"
    command = [sys.executable, project / "bench" / "decode.py", "--json", figures, "--case"]
    command += [*CASES[name], "--steps", "10000"] if full else ["1x64", "--steps", "1000"]
    environment = {f"{name.upper()}_LIBRARY": str(library)}
    run.stage(f"bench {name}", command, 560, env=environment, figures=figures)


def harness(run: Run, name: str, project: Path, library: Path) -> None:
    """The project's own tests, with the worker that is fastest and with the general one."""
    command = [sys.executable, "-m", "pytest", "-q", project / "tests"]
    environment = {f"{name.upper()}_LIBRARY": str(library)}
    run.stage(f"harness {name}", command, 300, env=environment)
    environment[f"{name.upper()}_TEST_WORKERS"] = str(GENERAL_WORKERS)
    run.stage(f"harness {name} general worker", command, 300, env=environment)


def lost(run: Run, project: Path) -> None:
    """What a decode kernel waits for never comes, in a copy of the project that loses it."""
    copy = run.out / "lost" / project.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("build"))
    script = HERE / "lost.py"
    if not run.stage(f"lost patch {project.name}", [sys.executable, script, "patch", copy], 60):
        return
    library = build(run, copy)
    if library:
        run.stage(f"lost {project.name}", [sys.executable, script, "check", copy, library], 300)
    shutil.rmtree(copy, ignore_errors=True)


def sanitizer(run: Run, name: str, project: Path, library: Path) -> None:
    """A small request under compute-sanitizer, where it is installed."""
    for tool in ("memcheck", "racecheck") if shutil.which("compute-sanitizer") else ():
        command = ["compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", sys.executable]
        run.stage(f"sanitizer {name} {tool}", [*command, HERE / "smoke.py", project, library], 300)


def main() -> int:
    """Run the stages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("quick", "full"), nargs="?", default="quick")
    parser.add_argument("--projects", type=Path, default=ROOT / "out" / "gpu")
    parser.add_argument("--only", default="", help="comma-separated stage prefixes to run")
    arguments = parser.parse_args()
    only = tuple(filter(None, arguments.only.split(",")))
    out = Path(os.environ.get("OUT") or ROOT / "out" / "results")
    facts = about(ROOT)
    os.environ["KGEN_COMMIT"] = facts["commit"]  # which the projects' benches write down, too
    run = Run(out, f"gpu-{arguments.mode}.json", {"mode": arguments.mode, **facts})

    def wanted(name: str) -> bool:
        return not only or name.startswith(only)

    if not arguments.projects.is_dir():
        generate(run, arguments.projects, arguments.mode == "full")
    built: dict[str, tuple[Path, Path]] = {}
    for project in sorted(p.parent for p in arguments.projects.glob("*/model.json")):
        library = build(run, project)
        if library:
            built[json.loads((project / "model.json").read_text())["name"]] = (project, library)
    full = arguments.mode == "full"
    python = sys.executable

    if wanted("tasks"):
        binary = out / "gpu_tasks"
        flags = ["-std=c++20", "-O2", "-lineinfo", "-gencode=arch=compute_90a,code=sm_90a", "-DPK_CUDA=1"]
        source = ROOT / "tests" / "headers" / "gpu_tasks.cu"
        include = ROOT / "templates" / "project" / "include"
        if run.stage(
            "tasks build", ["nvcc", *flags, f"-I{include}", f"-I{source.parent}", source, "-o", binary], 240
        ):
            run.stage("tasks", [binary], 120)
            binary.unlink()
    for name in filter(built.__contains__, SMALL):
        if wanted("harness"):
            harness(run, name, *built[name])
        if wanted("lost") and name == "tiny_decoder":
            lost(run, built[name][0])
        if wanted("sanitizer"):
            sanitizer(run, name, *built[name])
    for name in EXACT:
        if name in built and wanted("compare"):
            command = [python, HERE / "compare.py", *built[name], *(["--full"] if full else [])]
            run.stage(f"compare {name}", command, 560)
    gguf = os.environ.get("KGEN_SMOLLM2_GGUF", "")
    if wanted("text"):
        if gguf and importlib.util.find_spec("pydantic"):
            environment = {
                "KGEN_E2E_PRESET": "cuda",
                "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
            }
            command = [python, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", ROOT / "tests" / "e2e"]
            run.stage("text smollm2", command, 300, env=environment)
        else:
            run.skip("text smollm2", "needs kgen's packages, and KGEN_SMOLLM2_GGUF to name the weights")
    for name, runs in (("smollm2_135m", 1000 if full else 100),):
        if name in built and wanted("repeat"):
            run.stage(f"repeat {name} {runs}", [python, HERE / "repeat.py", *built[name], str(runs)], 500)
    for name in CASES if full else EXACT:
        if name in built and wanted("bench"):
            bench(run, *built[name], full)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
