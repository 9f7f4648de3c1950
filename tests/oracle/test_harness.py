"""The tests that every project carries pass for models of the least comfortable sizes too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.models import Model
from tests.oracle.project import make_project

SMALL: dict[str, Any] = {"hidden": 40, "ffn": 8, "layers": 1, "heads": 2, "kv_heads": 1, "head": 8}
MODELS = {
    "three tokens, one page": Model(
        "three", vocab=3, context=17, kv_page=64, rows=34, batch=8, tied=False, **SMALL
    ),
    "one sequence, one row": Model("one", vocab=257, context=64, kv_page=40, rows=1, batch=1, **SMALL),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_harness_passes(model: Model, tmp_path: Path) -> None:
    project = make_project(model.spec(), tmp_path / "project")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project.path / "tests")],
        env=os.environ | {f"{model.name.upper()}_LIBRARY": str(project.library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
