"""What is left of a spec without its wrong parts, so that the rest can be checked in the same run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgen.spec.document import At, Document

_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Gaps:
    """What was dropped: dims, and tensors by all names that dropped parts mention, which may mean anything.

    `graph` is whether operators were dropped, so that which ones there are cannot be judged. `sections` are
    those that a stand-in takes the place of, about which nothing is said.
    """

    names: frozenset[str] = frozenset()
    dims: frozenset[str] = frozenset()
    graph: bool = False
    sections: frozenset[str] = frozenset()


def salvage(
    document: Document, wrong: list[tuple[At, str]], stand_ins: Mapping[str, Any]
) -> tuple[Document, Gaps] | None:
    """The document without what is `wrong` (paths, pydantic's error types); None if too little is left.

    `stand_ins` are values of the sections that every spec of its kind has.
    """
    dropped: set[At] = set()
    for path, kind in wrong:
        part = _part(path, kind, stand_ins)
        if part is None:
            return None
        dropped.add(part)
    copier = _Copier(document, dropped)
    copier.result.data = copier.copy(document.data, (), ())
    for key, value in stand_ins.items():
        copier.result.data.setdefault(key, value)
    graph = any(part[0] == "graph" and not isinstance(part[-1], str) for part in dropped)
    dims = frozenset(str(part[1]) for part in dropped if part[0] == "dims" and len(part) > 1)
    sections = frozenset(str(part[0]) for part in dropped if len(part) == 1 and part[0] in stand_ins)
    return copier.result, Gaps(frozenset(copier.names), dims, graph, sections)


def _part(path: At, kind: str, stand_ins: Mapping[str, Any]) -> At | None:
    """The part to drop: a key that should not be there, or an operator, tensor, dim or header field."""
    if kind == "extra_forbidden":
        return path
    if path and path[0] in stand_ins:
        return path[:2] if path[0] == "overlap" else path[:1]  # choices do not need each other
    if len(path) > 1 and path[0] in ("tensors", "dims"):
        return path[:2]
    if len(path) > 1 and path[0] == "graph":
        return path[:4] if len(path) > 3 and path[2] == "do" else path[:2]
    return None


class _Copier:
    def __init__(self, document: Document, dropped: set[At]) -> None:
        self.source = document
        self.dropped = dropped
        self.result = Document(document.file)
        self.names: set[str] = set()

    def copy(self, value: Any, old: At, new: At) -> Any:
        """The value without dropped parts; the marks of `old` paths become those of `new` ones."""
        for marks, copied in ((self.source.values, self.result.values), (self.source.keys, self.result.keys)):
            if old in marks:
                copied[new] = marks[old]
        if old in self.source.plain:
            self.result.plain.add(new)
        if isinstance(value, dict):
            kept = [key for key in value if not self._drop((*old, key), value[key])]
            return {key: self.copy(value[key], (*old, key), (*new, key)) for key in kept}
        if isinstance(value, list):
            indices = [i for i, item in enumerate(value) if not self._drop((*old, i), item)]
            return [self.copy(value[i], (*old, i), (*new, j)) for j, i in enumerate(indices)]
        return value

    def _drop(self, path: At, value: Any) -> bool:
        if path not in self.dropped:
            return False
        self._note(value)
        if path[0] == "tensors":
            self.names.add(str(path[-1]))
        return True

    def _note(self, value: Any) -> None:
        """Remember the names in a dropped value."""
        if isinstance(value, dict):
            for item in value.values():
                self._note(item)
        elif isinstance(value, list):
            for item in value:
                self._note(item)
        elif isinstance(value, str):
            self.names.update(_NAMES.findall(value))
