"""What a task sees besides its operands: the step, the sequences and the KV cache, as NumPy arrays.

The names are those of the generated project's mpk/machine.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kgen.ir.tensor import DType

Array = npt.NDArray[Any]

NUMPY_DTYPE: dict[DType, np.dtype[Any]] = {
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.F16: np.dtype(np.float16),
    DType.F32: np.dtype(np.float32),
    DType.I32: np.dtype(np.int32),
}


class Finish(Enum):
    """Why a sequence ended."""

    RUNNING = 0
    STOP_TOKEN = 1
    LENGTH = 2


@dataclass(frozen=True)
class Request:
    """One sequence to continue. temperature 0 takes the best token; top_k 0 and top_p 1 keep all of them."""

    prompt: tuple[int, ...]
    max_new_tokens: int
    stop: tuple[int, ...] = ()
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    score_prompt: bool = False


@dataclass
class Sequence:
    """A request and its progress. `position` tokens are in the cache; `logprobs` are by position."""

    request: Request
    position: int = 0
    finish: Finish = Finish.RUNNING
    tokens: list[int] = field(default_factory=list)
    logprobs: dict[int, float] = field(default_factory=dict)

    @property
    def in_prompt(self) -> bool:
        """Whether a token of the prompt is still to be read."""
        return self.position < len(self.request.prompt)


@dataclass
class KvCache:
    """The paged cache.

    data bf16 [layers, pages, 2, kv_heads, page tokens, head], page_table int64 [batch, pages each].
    """

    data: Array
    page_table: npt.NDArray[np.int64]

    def entry(self, layer: int, sequence: int, head: int, position: int) -> tuple[Array, Array]:
        """Views of the key and the value of one token, each bf16 [head]."""
        page, token = divmod(position, self.data.shape[4])
        of_page = self.data[layer, self.page_table[sequence, page]]
        return of_page[0, head, token], of_page[1, head, token]

    def history(self, layer: int, sequence: int, head: int, length: int) -> tuple[Array, Array]:
        """Copies of the first `length` keys and values, each f32 [length, head]."""
        pages = self.page_table[sequence, : -(-length // self.data.shape[4])]
        both = self.data[layer, pages, :, head].astype(np.float32)  # [pages, 2, page tokens, head]
        keys, values = np.moveaxis(both, 1, 0).reshape(2, -1, self.data.shape[5])[:, :length]
        return keys, values


@dataclass
class Step:
    """The rows of one step: row r is the token at position[r] of sequence[r]; the rest as in mpk::Step."""

    row_count: int
    sequence: npt.NDArray[np.int64]  # [row_count]
    position: npt.NDArray[np.int64]  # [row_count]
    tokens: npt.NDArray[np.int32]  # [row_count]
    first_row: npt.NDArray[np.int64]  # [batch]
    rows_of: npt.NDArray[np.int64]  # [batch], 0 for a sequence without rows
    sample_row: npt.NDArray[np.int64]  # [batch], -1 for a sequence that does not sample
    logprob: npt.NDArray[np.float32]  # [batch], of the sampled tokens


@dataclass
class Machine:
    """The state that the tasks of all steps share."""

    rows: int
    sequences: list[Sequence]
    kv: KvCache
    step: Step


def next_step(sequences: list[Sequence], batch: int, rows: int) -> Step:
    """Choose the rows of a step: one for every running sequence, then chunks of prompts in sequence order."""
    running = [s for s, q in enumerate(sequences) if q.finish is Finish.RUNNING]
    spare = rows - len(running)
    first_row, rows_of = np.zeros(batch, np.int64), np.zeros(batch, np.int64)
    sample_row = np.full(batch, -1, np.int64)
    row_sequence: list[int] = []
    row_position: list[int] = []
    row_token: list[int] = []
    for s in running:
        q = sequences[s]
        known = [*q.request.prompt, *q.tokens]
        count = 1
        if q.in_prompt and not q.request.score_prompt:
            extra = min(spare, len(q.request.prompt) - q.position - 1)
            count, spare = 1 + extra, spare - extra
        first_row[s], rows_of[s] = len(row_token), count
        for p in range(q.position, q.position + count):
            row_sequence.append(s)
            row_position.append(p)
            row_token.append(known[p])
        if q.request.score_prompt or q.position + count >= len(q.request.prompt):
            sample_row[s] = len(row_token) - 1
    return Step(
        row_count=len(row_token),
        sequence=np.array(row_sequence, np.int64),
        position=np.array(row_position, np.int64),
        tokens=np.array(row_token, np.int32),
        first_row=first_row,
        rows_of=rows_of,
        sample_row=sample_row,
        logprob=np.full(batch, np.nan, np.float32),
    )
