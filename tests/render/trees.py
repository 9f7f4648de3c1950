"""Small trees for the writer."""

import hashlib
import json
from pathlib import Path

from kgen.render.project import MANIFEST


def make_tree(**texts: str) -> dict[str, str]:
    """Files by name (`__` for a slash), with the manifest that names them."""
    tree = {name.replace("__", "/"): text for name, text in texts.items()}
    hashes = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in tree.items()}
    return tree | {MANIFEST: json.dumps({"kgen": "0", "name": "t", "files": hashes})}


def on_disk(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}
