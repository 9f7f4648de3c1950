"""This project: its folder and the contents of its model.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
MODEL: dict[str, Any] = json.loads((PROJECT / "model.json").read_text())
