"""Write `generated/` anew from the shipped specs, or say what in it is stale: `ci/regenerate.py [--check]`.

One project is kept whole, as an example to read. Of the others the manifest and the plan's summary are kept,
so that a change to a template or a pass shows in a diff which projects it touches and what it did to their
plans.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from kgen.frontend.check import LoadedKernel, load_any
from kgen.passes.kernel.pipeline import KernelCompilation, compile_kernel
from kgen.passes.pipeline import Compilation, compile_graph
from kgen.paths import shipped_specs
from kgen.plan.kernel.runtime import refusals
from kgen.render.project import MANIFEST, render_project
from kgen.report.explain import explain
from kgen.report.kernel import explain_kernel

GENERATED = Path(__file__).resolve().parents[1] / "generated"
EXAMPLE = "smollm2-135m"
SUMMARY = "explain.json"


def wanted() -> dict[str, str]:
    """Path below generated/ -> text."""
    files = {}
    for spec, path in shipped_specs():
        made = compiled(path)
        if made is None:
            continue
        compilation, summary = made
        tree = render_project(compilation)
        kept = tree if spec == EXAMPLE else {MANIFEST: tree[MANIFEST]}
        files |= {f"{spec}/{name}": text for name, text in kept.items()}
        files[f"{spec}/{SUMMARY}"] = json.dumps(summary, indent=1) + "\n"
    return files


def compiled(path: Path) -> tuple[Compilation | KernelCompilation, dict[str, Any]] | None:
    """A spec's compilation and the summary of it; None for a kernel that the runtime does not have yet."""
    loaded = load_any(path)
    if isinstance(loaded, LoadedKernel):
        if refusals(loaded.graph):
            return None
        kernel = compile_kernel(loaded.graph)
        return kernel, explain_kernel(kernel).to_json()
    model = compile_graph(loaded.graph)
    summary = explain(model).to_json()
    for one in summary["passes"]:
        del one["seconds"]
    return model, summary


def present() -> set[str]:
    """Paths of the files below generated/; what a build of the example left there is not counted."""
    files = (path.relative_to(GENERATED) for path in GENERATED.rglob("*") if path.is_file())
    return {path.as_posix() for path in files if not {"build", "__pycache__"}.intersection(path.parts)}


def stale(files: dict[str, str]) -> list[str]:
    """Paths that are missing, differ, or are no longer wanted."""
    here = present()
    changed = [p for p, text in files.items() if p not in here or (GENERATED / p).read_text("utf-8") != text]
    return sorted([*changed, *(here - files.keys())])


def main() -> int:
    """Exit 1 when --check finds something stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something is stale")
    check = parser.parse_args().check
    files = wanted()
    paths = stale(files)
    for path in paths:
        print(f"{'stale' if check else 'writing'} generated/{path}", file=sys.stderr)
        if check:
            continue
        target = GENERATED / path
        if path in files:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(files[path], encoding="utf-8")
        else:
            target.unlink()
    return 1 if check and paths else 0


if __name__ == "__main__":
    sys.exit(main())
