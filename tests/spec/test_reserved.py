"""Names that projects cannot have, against what projects are made of."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kgen.spec.reserved import is_macro, reserved

TEMPLATES = Path(__file__).parents[2] / "templates"
FOLDERS = [TEMPLATES / kind / part for kind in ("kernel", "project") for part in ("tests", "bench")]
IMPORT = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)


def test_no_project_has_the_name_of_a_module_that_its_tests_or_bench_import() -> None:
    files = [file for folder in FOLDERS for file in folder.glob("*.py")]
    names = {file.stem for file in files}
    names |= {name for file in files for name in IMPORT.findall(file.read_text())} - {"each", "__future__"}
    assert names >= {"problem", "memory", "worker", "ranks", "rank", "overlap", "numpy", "torch"}
    assert {name for name in names if not reserved(name)} == set()


def test_no_field_has_the_name_of_a_macro() -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler")
    text = "".join(f"#include <{name}.h>\n" for name in ("stddef", "stdint", "limits", "errno"))
    preprocess = [compiler, "-std=c11", "-dM", "-E", "-x", "c", "-"]
    done = subprocess.run(preprocess, input=text, capture_output=True, text=True, check=True)
    names = set(re.findall(r"^#define (\w+)", done.stdout, re.MULTILINE))
    assert names >= {"INT8_MAX", "PTRDIFF_MAX", "CHAR_BIT", "UINT64_C", "EINVAL"}
    assert {name for name in names if not is_macro(name, "SMALL")} <= {
        *("NULL", "errno", "offsetof", "linux", "unix"),
    }


def test_the_headers_define_only_macros_with_their_prefixes() -> None:
    kernel = TEMPLATES / "kernel/include/@name@/@name@.h.j2"
    library = [
        *(TEMPLATES / "project/include/pk").rglob("*.hpp"),
        *(TEMPLATES / "kernel/include").rglob("*.hpp"),
    ]
    texts = [file.read_text().replace("{{ NAME }}", "SMALL") for file in (kernel, *library)]
    names = {name for text in texts for name in re.findall(r"^# *define (\w+)", text, re.MULTILINE)}
    assert names >= {"SMALL_H", "SMALL_API", "SMALL_ABI_VERSION", "PK_DEVICE"}
    assert {name for name in names if not is_macro(name, "SMALL")} == set()
