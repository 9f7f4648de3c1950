"""`src/plan.cpp` as a C++ compiler reads it: a program prints the tables, and they must be the plan's."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kgen.ir.tensor import Space
from kgen.plan.plan import Plan
from kgen.render.project import render_project
from kgen.render.writer import write_tree

DUMP = Path(__file__).parent / "dump_plan.cpp"


@dataclass(frozen=True)
class Rendered:
    plan: Plan
    tables: dict[str, Any]  # what the compiled plan.cpp says


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory, hand_made: Any) -> Rendered:
    folder = tmp_path_factory.mktemp("plan")
    write_tree(render_project(hand_made), folder / "project")
    project = folder / "project"
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-DPLAN={hand_made.plan.name}"]
    includes = [f"-I{project / 'include'}", f"-I{project / 'src'}"]
    sources = [str(DUMP), str(project / "src" / "plan.cpp")]
    subprocess.run(["g++", *flags, *includes, *sources, "-o", str(folder / "dump")], check=True)
    return Rendered(hand_made.plan, json.loads(subprocess.check_output([folder / "dump"])))


def test_sizes(rendered: Rendered) -> None:
    plan, runtime = rendered.plan, rendered.plan.runtime
    assert rendered.tables["sizes"] == {
        "name": plan.name,
        "digest": plan.digest,
        "batch": runtime.batch,
        "context": runtime.context,
        "rows": runtime.rows,
        "vocab": plan.vocab,
        "kv_page": runtime.kv_page,
        "kv_layers": plan.kv_layers,
        "kv_heads": plan.kv_heads,
        "head": plan.head,
        "slots": runtime.workers,
        "queue_capacity": plan.queue_capacity,
        "weight_bytes": plan.weight_bytes,
        "arena_bytes": plan.arena_bytes,
        "tokens": plan.tokens,
        "sampled": plan.sampled,
        "logits": plan.logits,
    }


def test_tensors(rendered: Rendered) -> None:
    spaces = {Space.WEIGHT: 0, Space.ACTIVATION: 1}
    expected = [[spaces[t.space], t.rows, t.cols, t.stride, t.offset] for t in rendered.plan.tensors]
    assert rendered.tables["tensors"] == expected


def test_ops(rendered: Rendered) -> None:
    expected = [[op.name, op.variant, op.layer, *op.operands] for op in rendered.plan.ops]
    # The C++ table has a fixed number of operands; what an operator does not use is zero.
    actual = [row[: len(want)] for row, want in zip(rendered.tables["ops"], expected, strict=True)]
    assert actual == expected


def test_runs(rendered: Rendered) -> None:
    expected = [
        [
            run.op,
            int(run.jit),
            run.count,
            run.begin,
            run.step,
            run.width,
            run.limit,
            run.index,
            run.index_step,
            run.wait,
            run.trigger,
            0 if run.jit else run.slot,
        ]
        for run in rendered.plan.runs
    ]
    assert rendered.tables["runs"] == expected


def test_events(rendered: Rendered) -> None:
    assert rendered.tables["events"] == [[e.threshold, e.first, e.count] for e in rendered.plan.events]
