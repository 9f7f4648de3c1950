"""A plan becomes the files of a project: {relative path: text}. Reads templates, writes nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from kgen import __version__
from kgen.paths import kernel_templates, project_templates
from kgen.plan.kernel.plan import KernelPlan
from kgen.plan.plan import Plan
from kgen.render.decoder import make_decoder
from kgen.render.kernel import make_kernel
from kgen.render.model_json import make_model_json
from kgen.render.tables import make_tables
from kgen.render.variants import headers, make_variants

if TYPE_CHECKING:
    from kgen.passes.kernel.pipeline import KernelCompilation
    from kgen.passes.pipeline import Compilation

MANIFEST = "kgen.manifest.json"
_NAME_PART = "@name@"
_RENDERED = ".j2"
# The header library of both kinds of project, of which each gets what it uses.
_LIBRARY = "include/pk/"
_INCLUDE = re.compile(r'^ *# *include "(pk/[^"]+)"', re.MULTILINE)
# What a kernel's project takes from the templates of models.
_SHARED = (_LIBRARY, "include/mpk/engine/error.hpp", ".clang-format", ".gitignore")
# Folders that tools leave behind when somebody works inside the template tree.
_NOT_TEMPLATES = {"__pycache__", "build", ".pytest_cache", ".ruff_cache", ".mypy_cache"}


def render_project(compilation: Compilation | KernelCompilation) -> dict[str, str]:
    """All files of the project for `compilation`, the manifest included, sorted by path.

    The same plan gives the same texts: nothing depends on the time, the machine or where kgen lies.
    """
    plan = compilation.plan
    sources, context = _of_kernel(plan) if isinstance(plan, KernelPlan) else _of_model(plan)
    context |= {"name": plan.name, "NAME": plan.name.upper(), "plan": plan}
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    tree: dict[str, str] = {}
    for relative, source in sources:
        target = relative.replace(_NAME_PART, plan.name)
        text = source.read_text(encoding="utf-8")
        if target.endswith(_RENDERED):
            target = target.removesuffix(_RENDERED)
            text = environment.from_string(text).render(context)
        tree[target] = text
    tree = _without_unused(tree)
    tree[MANIFEST] = _manifest(plan.name, tree)
    return dict(sorted(tree.items()))


Sources = Iterable[tuple[str, Path]]  # relative path, template


def _of_model(plan: Plan) -> tuple[Sources, dict[str, Any]]:
    context = {
        "tables": make_tables(plan),
        "variants": make_variants(plan),
        "task_headers": headers(plan),
        "decoder": make_decoder(plan),
        "model": make_model_json(plan),
    }
    return _templates(project_templates()), context


def _of_kernel(plan: KernelPlan) -> tuple[Sources, dict[str, Any]]:
    shared = (s for s in _templates(project_templates()) if s[0].startswith(_SHARED))
    return chain(shared, _templates(kernel_templates())), {"kernel": make_kernel(plan)}


def _without_unused(tree: dict[str, str]) -> dict[str, str]:
    """The tree without headers of the library that nothing in it includes."""
    used = {path for path in tree if not path.startswith(_LIBRARY)}
    found = list(used)
    while found:
        names = {f"include/{name}" for name in _INCLUDE.findall(tree[found.pop()])}
        found += (names & tree.keys()) - used
        used |= names
    return {path: text for path, text in tree.items() if path in used}


def _templates(root: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and not _NOT_TEMPLATES.intersection(relative.parts):
            yield relative.as_posix(), path


def _manifest(name: str, tree: dict[str, str]) -> str:
    files = {path: hashlib.sha256(tree[path].encode()).hexdigest() for path in sorted(tree)}
    return json.dumps({"kgen": __version__, "name": name, "files": files}, indent=1) + "\n"
