"""Puts a rendered tree on disk: whole files only, and never over somebody's edits.

The tree carries a manifest with the hash of every file. A file on disk that differs from the manifest of the
generation before has been edited by hand; a file that no manifest names belongs to the user.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kgen.render.project import MANIFEST
from kgen.render.staging import staging_folder, sweep

_INSIDE = ".kgen."  # start of the names of temporary folders in a project


class WriteError(Exception):
    """The destination cannot be written; the message is one sentence for the user."""


class EditedError(WriteError):
    """Files in the destination hold edits that writing would lose."""

    def __init__(self, dest: Path, paths: list[str]) -> None:
        self.paths = paths
        listed = "\n".join(f"  {path}" for path in paths)
        super().__init__(
            f"{dest} has files that kgen did not write or that were edited since:\n{listed}\n"
            "Nothing was written. Move them away, or use --force to overwrite them."
        )


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What one write did, as relative paths."""

    written: list[str]
    unchanged: list[str]
    removed: list[str]
    kept: list[str]  # no longer generated, but edited by hand


@dataclass(frozen=True, slots=True)
class _Changes:
    written: list[str]
    unchanged: list[str]
    removed: list[str]
    kept: list[str]
    edited: list[str]  # among `written`: what the user would lose


def write_tree(tree: Mapping[str, str], dest: Path, *, force: bool = False) -> WriteReport:
    """Make `dest` hold `tree`. Files that would not change are not touched, so builds stay incremental.

    Every file is staged first and then renamed into place; a new destination appears as a whole. Raises
    EditedError when hand edits would be lost and `force` is not set, WriteError when the disk refuses.
    What killed writes to `dest` left behind is removed at the end.
    """
    try:
        report = _write(tree, dest, force=force)
    except OSError as error:
        raise WriteError(f"cannot write {error.filename or dest}: {error.strerror}") from error
    sweep(dest.parent, _beside(dest))
    sweep(dest, _INSIDE)
    return report


def _write(tree: Mapping[str, str], dest: Path, *, force: bool) -> WriteReport:
    if dest.is_symlink() and not dest.exists():
        raise WriteError(f"{dest} is a link to something that does not exist")
    if not dest.exists():
        _write_new(tree, dest)
        return WriteReport(sorted(tree), [], [], [])
    changes = _compare(tree, dest)
    if not force:
        _check_name(tree, dest)
    _check_devices(changes.written, dest)
    if changes.edited and not force:
        raise EditedError(dest, changes.edited)
    _write_over(tree, dest, changes)
    return WriteReport(changes.written, changes.unchanged, changes.removed, changes.kept)


def check_tree(tree: Mapping[str, str], dest: Path) -> list[str]:
    """Paths whose text on disk is not what `tree` says, and files that are no longer generated; sorted."""
    changes = _compare_readable(tree, dest)
    return sorted(changes.written + changes.removed + changes.kept)


def diff_tree(tree: Mapping[str, str], dest: Path) -> str:
    """Unified diff from the files on disk to `tree`; empty when nothing would change."""
    changes = _compare_readable(tree, dest)
    parts: list[str] = []
    for path in sorted(changes.written + changes.removed):
        old = _read(dest / path)
        new = tree.get(path)
        parts += difflib.unified_diff(
            _lines(old),
            _lines(new),
            "/dev/null" if old is None else f"a/{path}",
            "/dev/null" if new is None else f"b/{path}",
        )
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in parts
    )


def _compare_readable(tree: Mapping[str, str], dest: Path) -> _Changes:
    try:
        return _compare(tree, dest)
    except OSError as error:
        raise WriteError(f"cannot read {error.filename or dest}: {error.strerror}") from error


def _compare(tree: Mapping[str, str], dest: Path) -> _Changes:
    if dest.exists() and not dest.is_dir():
        raise WriteError(f"{dest} is a file, not a folder")
    _check_kinds(tree, dest)
    former = _former_hashes(dest)
    changes = _Changes([], [], [], [], [])
    for path, text in tree.items():
        old = _hash_on_disk(dest / path)
        if old == _hash(text):
            changes.unchanged.append(path)
            continue
        changes.written.append(path)
        if old is not None and path != MANIFEST and old != former.get(path):
            changes.edited.append(path)
    for path in former.keys() - tree.keys():
        old = _hash_on_disk(dest / path)
        if old is not None:
            (changes.removed if old == former[path] else changes.kept).append(path)
    for paths in (changes.written, changes.unchanged, changes.removed, changes.kept, changes.edited):
        paths.sort()
    return changes


def _check_kinds(tree: Mapping[str, str], dest: Path) -> None:
    """Refuse a folder, pipe or the like where a file goes, and anything but a folder where a folder goes."""
    folders = {dest / parent for path in tree for parent in PurePosixPath(path).parents}
    wrong = [f for f in folders if os.path.lexists(f) and not f.is_dir()]
    wrong += [dest / path for path in tree if (dest / path).exists() and not (dest / path).is_file()]
    if wrong:
        listed = "\n".join(f"  {path}" for path in sorted(wrong))
        raise WriteError(f"these are in the way of generated files or folders; move them away:\n{listed}")


def _check_devices(paths: list[str], dest: Path) -> None:
    """Refuse folders on another filesystem than `dest`: files are renamed from one folder of `dest`."""
    device = dest.stat().st_dev
    folders = {dest / parent for path in paths for parent in PurePosixPath(path).parents}
    away = [f for f in folders if f.exists() and f.stat().st_dev != device]
    if away:
        listed = "\n".join(f"  {path}" for path in sorted(away))
        raise WriteError(
            f"these folders are on another filesystem than {dest}, so files cannot be moved into them as a "
            f"whole; put plain folders there:\n{listed}\nNothing was written."
        )


def _check_name(tree: Mapping[str, str], dest: Path) -> None:
    """Refuse to turn the project of something else into this one."""
    old, new = (_name(text) for text in (_read(dest / MANIFEST), tree.get(MANIFEST)))
    if old and new and old != new:
        raise WriteError(
            f"{dest} is the project of {old}, not of {new}. Nothing was written. Choose another folder, or "
            "use --force to replace it."
        )


def _name(manifest: str | None) -> str:
    """Of the project that a manifest is about; empty where it does not say."""
    about = json.loads(manifest) if manifest else {}
    return str(about.get("name", ""))


def _former_hashes(dest: Path) -> dict[str, str]:
    """Hashes of the generation before; empty where there was none."""
    text = _read(dest / MANIFEST)
    if text is None:
        return {}
    try:
        files = json.loads(text)["files"]
        hashes = {str(path): str(value) for path, value in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WriteError(f"{dest / MANIFEST} is damaged; delete it to generate again") from error
    # A manifest is only a file in a folder: it must not make kgen delete anything outside that folder.
    return {path: value for path, value in hashes.items() if _stays_inside(path)}


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and "\0" not in path and not PurePosixPath(path).is_absolute() and ".." not in parts


def _write_new(tree: Mapping[str, str], dest: Path) -> None:
    dest.parent.mkdir(parents=True, exist_ok=True)
    with staging_folder(dest.parent, _beside(dest)) as holder:
        stage = holder / "stage"  # with the permissions of a new folder, which the holder has not
        stage.mkdir()
        for path, text in tree.items():
            _put(stage / path, text)
        stage.rename(dest)


def _beside(dest: Path) -> str:
    """Start of the names of temporary folders beside `dest`."""
    return f".{dest.name}.kgen."


def _write_over(tree: Mapping[str, str], dest: Path, changes: _Changes) -> None:
    if not changes.written and not changes.removed:
        return
    # Staged inside: `dest` may be a mount point, or the only folder that may be written.
    with staging_folder(dest, _INSIDE) as stage:
        for path in changes.written:
            _put(stage / path, tree[path])
        # The manifest goes last: until then the one of the generation before tells edits from old files.
        for path in changes.removed:
            _remove(dest, path)
        for path in sorted(changes.written, key=lambda p: p == MANIFEST):
            target = dest / path
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(stage / path, target)


def _put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    if text.startswith("#!"):
        file.chmod(file.stat().st_mode | 0o111 & ~_umask())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _remove(dest: Path, path: str) -> None:
    """Delete a file and the folders that it leaves empty."""
    file = dest / path
    file.unlink(missing_ok=True)
    for folder in file.relative_to(dest).parents:
        if folder == Path() or any((dest / folder).iterdir()):
            break
        shutil.rmtree(dest / folder)


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _lines(text: str | None) -> list[str]:
    return [] if text is None else text.splitlines(keepends=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _hash_on_disk(file: Path) -> str | None:
    """None where there is no file."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
