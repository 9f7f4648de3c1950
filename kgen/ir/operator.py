"""What every operator family says about itself. One file per family implements it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Operator:
    """One operator over named buffers. Subclasses add fields that name tensors and hold parameters."""

    name: str
    layer: int  # iteration of the repeat block, -1 outside

    kind: ClassVar[str] = ""
