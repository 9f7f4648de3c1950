"""A plan becomes the files of a project: {relative path: text}. Reads templates, writes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined

from kgen import __version__
from kgen.paths import project_templates
from kgen.render.decoder import make_decoder
from kgen.render.model_json import make_model_json
from kgen.render.tables import make_tables
from kgen.render.variants import headers, make_variants

if TYPE_CHECKING:
    from kgen.passes.pipeline import Compilation

MANIFEST = "kgen.manifest.json"
_NAME_PART = "@name@"
_RENDERED = ".j2"
# Folders that tools leave behind when somebody works inside the template tree.
_NOT_TEMPLATES = {"__pycache__", "build", ".pytest_cache", ".ruff_cache", ".mypy_cache"}


def render_project(compilation: Compilation) -> dict[str, str]:
    """All files of the project for `compilation`, the manifest included, sorted by path.

    The same plan gives the same texts: nothing depends on the time, the machine or where kgen lies.
    """
    plan = compilation.plan
    context = {
        "name": plan.name,
        "NAME": plan.name.upper(),
        "plan": plan,
        "tables": make_tables(plan),
        "variants": make_variants(plan),
        "task_headers": headers(plan),
        "decoder": make_decoder(plan),
        "model": make_model_json(plan),
    }
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    tree: dict[str, str] = {}
    for relative, source in _templates(project_templates()):
        target = relative.replace(_NAME_PART, plan.name)
        text = source.read_text(encoding="utf-8")
        if target.endswith(_RENDERED):
            target = target.removesuffix(_RENDERED)
            text = environment.from_string(text).render(context)
        tree[target] = text
    tree[MANIFEST] = _manifest(plan.name, tree)
    return dict(sorted(tree.items()))


def _templates(root: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and not _NOT_TEMPLATES.intersection(relative.parts):
            yield relative.as_posix(), path


def _manifest(name: str, tree: dict[str, str]) -> str:
    files = {path: hashlib.sha256(tree[path].encode()).hexdigest() for path in sorted(tree)}
    return json.dumps({"kgen": __version__, "name": name, "files": files}, indent=1) + "\n"
