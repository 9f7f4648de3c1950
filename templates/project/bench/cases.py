"""What is measured: a batch at a context, and the bytes that a step of it must read."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import prod
from typing import Any

ITEM_BYTES = {"bf16": 2, "f32": 4, "i32": 4}
KV_BYTES = 2  # of an element of the cache


@dataclass(frozen=True)
class Case:
    """`batch` sequences whose caches hold `context` tokens, as it was asked for."""

    batch: int
    context: int

    def __str__(self) -> str:
        return f"{self.batch}x{self.context}"


@dataclass(frozen=True)
class Request:
    """The calls that measure a case: prompts of `prompt` tokens, continued by 1 and by `tokens` tokens."""

    batch: int
    prompt: int
    tokens: int

    @property
    def context(self) -> float:
        """Tokens that attention reads in a step, on average over the steps after the first token."""
        return self.prompt + self.tokens / 2


def parse_case(text: str) -> Case:
    """`4x1024`: batch 4, context 1024."""
    batch, cross, context = text.partition("x")
    if not (cross and batch.isdecimal() and context.isdecimal() and int(batch) and int(context)):
        raise argparse.ArgumentTypeError(f"'{text}' is not BATCHxCONTEXT, such as 4x1024")
    return Case(int(batch), int(context))


def default_cases(batch: int, cuda: bool) -> list[Case]:
    """The cases that are measured unless others are asked for."""
    return [Case(1, 64), Case(1, 1024), Case(batch, 1024)] if cuda else [Case(1, 64), Case(batch, 64)]


def fit(case: Case, tokens: int, batch: int, context: int) -> Request:
    """Calls around the case's context, cut to what a model of that batch and context takes."""
    tokens = max(2, min(tokens, 2 * (case.context - 1), context // 2))
    prompt = max(1, min(case.context - tokens // 2, context + 1 - tokens))
    return Request(min(case.batch, batch), prompt, tokens)


def weight_bytes(model: dict[str, Any], batch: int) -> int:
    """Bytes of weights that a step reads: matrices and norms once, of the embedding a row a token."""
    tensors = {t["name"]: t for t in model["tensors"] if t["space"] == "weight"}
    whole, rows = set(), 0
    for op in model["ops"]:
        read = set(op["operands"].values()) & tensors.keys()
        if op["kind"] == "embedding":
            table = tensors[op["operands"]["table"]]
            rows += batch * table["shape"][-1] * ITEM_BYTES[table["dtype"]]
        else:
            whole |= read
    return rows + sum(prod(tensors[n]["shape"]) * ITEM_BYTES[tensors[n]["dtype"]] for n in whole)


def kv_bytes(model: dict[str, Any], batch: int, context: float) -> int:
    """Bytes of keys and values that a step reads."""
    layers = [op["constants"] for op in model["ops"] if op["kind"] == "attention"]
    return round(sum(2 * KV_BYTES * c["kv_heads"] * c["head"] for c in layers) * batch * context)


def step_bytes(model: dict[str, Any], batch: int, context: float) -> int:
    """Bytes that a step must read at least."""
    return weight_bytes(model, batch) + kv_bytes(model, batch, context)
