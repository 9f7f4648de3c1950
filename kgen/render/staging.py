"""Temporary folders beside or in a project, and what killed runs left of them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def staging_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder `prefix` + 8 characters in `parent`, removed at the end.

    It is locked as long as this process lives, which tells `sweep` that it is in use.
    """
    lock = None
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = _lock(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # a sweep came between and took it for a leftover
        except OSError:
            pass  # a filesystem without locks, where nothing is swept either
        break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def sweep(parent: Path, prefix: str) -> None:
    """Remove the folders that `staging_folder` made with these arguments in processes that were killed."""
    name = re.compile(re.escape(prefix) + "[a-z0-9_]{8}")
    with suppress(OSError):  # whatever cannot be listed or removed does no harm
        for folder in [f for f in parent.iterdir() if name.fullmatch(f.name)]:
            if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
                continue
            with suppress(OSError):  # in use, or gone by now
                lock = _lock(folder)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int:
    """A descriptor that holds the lock of a folder. OSError when another process has it or it is gone."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(folder)  # it may have been removed since it was opened
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
