"""Numbers of bytes as reports print them."""

from __future__ import annotations


def size_text(count: int) -> str:
    """Three digits and a unit: 1.23 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"
