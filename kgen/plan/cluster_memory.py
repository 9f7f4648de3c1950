"""Shared memory of the cluster worker: how many rows of a decoder a step can carry.

The same sums as in `include/mpk/cluster/layout.hpp`, which the tests compare.
"""

from __future__ import annotations

from typing import Protocol

ROW_SIZES = (16, 8, 1)  # that the worker is compiled for, the largest first
MEMBERS = 8  # SMs of a cluster
PAGE_BYTES = 32768  # of the ring
LEAST_PAGES = 2
_ROOM = 232448 - 1024  # of a block on sm_90
_MOST_PAGES = 8
_WARPS = 8
_DRAW = 16640  # bytes for drawing a token
_POINTERS = 32  # bytes of a layer's pointers
_STRETCH = 16  # bytes of a stretch of attention


class Sizes(Protocol):
    """Those of a decoder that shared memory depends on."""

    @property
    def hidden(self) -> int: ...  # noqa: D102
    @property
    def heads(self) -> int: ...  # noqa: D102
    @property
    def kv_heads(self) -> int: ...  # noqa: D102
    @property
    def head(self) -> int: ...  # noqa: D102
    @property
    def ffn(self) -> int: ...  # noqa: D102


def rows_that_fit(sizes: Sizes, layers: int) -> int:
    """The most rows for which two pages are left for the ring; 0 if not even one has the room."""
    return next((rows for rows in ROW_SIZES if ring_pages(sizes, layers, rows) >= LEAST_PAGES), 0)


def ring_pages(sizes: Sizes, layers: int, rows: int) -> int:
    """Pages of the ring beside everything else that a step of so many rows keeps in shared memory."""
    return min(_MOST_PAGES, max(0, _ROOM - beside_ring(sizes, layers, rows)) // PAGE_BYTES)


def beside_ring(sizes: Sizes, layers: int, rows: int) -> int:
    """Bytes of shared memory that are not the ring's."""
    group = sizes.heads // sizes.kv_heads
    qkv, output = (group + 2) * sizes.head, group * sizes.head
    columns = sizes.hidden // MEMBERS  # of the residual stream that a member owns
    partial = group * (sizes.head + 4) * 4
    one = rows == 1

    spans = _aligned(MEMBERS * partial)
    attention = _aligned(rows * group * sizes.head * 2) + spans
    hidden = _aligned(sizes.hidden * rows * 2)
    ffn_chunks, rest = divmod(sizes.ffn // 32, sizes.kv_heads)
    ffn_chunks = ffn_chunks + 2 if rest else max(ffn_chunks, sizes.ffn // 32 // (sizes.kv_heads + 1) + 2)

    total = 1024 + 32 * _WARPS + _aligned((layers * 4 + 1) * 8) + _aligned(layers * _POINTERS)
    total += _aligned((1 if one else rows * 2) * _WARPS * _STRETCH)
    total += _aligned(rows * 4 * sizes.head)  # the step's keys and values
    least = total + _DRAW
    total += hidden + attention if one else max(hidden, attention)
    lanes = _WARPS if one else min(max(rows * qkv * 4 // partial, 16), 32)
    lanes_bytes = _aligned(lanes * partial)
    halves = 2 * (256 if one else _WARPS * 32 * rows)  # of the sums of a tile
    total += max(
        max(_aligned(rows * qkv * 4), 0 if one else lanes_bytes) + _aligned(output * rows * 2),
        _aligned(ffn_chunks * 64 * rows),
    )
    total += max(halves, lanes_bytes) if one else halves
    pieces = -(-columns // 128)
    total += (pieces if one else -(-rows * pieces // sizes.kv_heads)) * 512  # of the residual stream
    total += _aligned(MEMBERS * pieces * rows * 4)
    total += 128  # the scales
    total += (
        _aligned(rows * sizes.head * 4) + _aligned(4 * sizes.head) + _WARPS * (512 if rows == 16 else 256)
    )
    return max(total, least)


def _aligned(size: int) -> int:
    return -(-size // 128) * 128
