"""What a user would run instead, in PyTorch: the product by cuBLAS, collectives by NCCL or torch's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

Product = Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor]


class NoSuchOperation(Exception):
    """Nothing of the kind to compare with: the bench says so beside its table."""


def silu_product(rows: torch.Tensor, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """The product, gated where there are two, in the dtype of `rows`."""
    result = rows @ tensors["weight"].to(rows.dtype).t()
    if "up" in tensors:
        result = torch.nn.functional.silu(result) * (rows @ tensors["up"].to(rows.dtype).t())
    return result


def add(result: torch.Tensor, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """The result with bias and residual, where there are such: of a sum over ranks, once."""
    for role in ("bias", "residual"):
        if role in tensors:
            result = result + tensors[role].to(result.dtype)
    return result


@dataclass(frozen=True)
class Peers:
    """Of one kernel: its summary, and its product."""

    kernel: dict[str, Any]
    product: Product

    def of(self, tensors: dict[str, torch.Tensor], m: int) -> Work:
        """The same on these tensors, by role."""
        return Work(self.kernel, self.product, tensors, m)


class Work:
    """A call. Shards of rows that are not equal are padded for NCCL, which wants them equal."""

    def __init__(
        self, kernel: dict[str, Any], product: Product, tensors: dict[str, torch.Tensor], m: int
    ) -> None:
        self.kernel, self.multiply, self.tensors, self.m = kernel, product, tensors, m
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        self.each = -(-m // self.world)
        rows = tensors["rows"]
        self.full = rows
        if kernel["gather"]:
            self.shard = torch.zeros(self.each, rows.shape[1], device="cuda", dtype=rows.dtype)
            self.shard[: len(rows)] = rows
            self.full = torch.empty(self.each * self.world, rows.shape[1], device="cuda", dtype=rows.dtype)
            dist.all_gather_into_tensor(self.full, self.shard)
        if kernel["reduce"] == "scatter":
            columns = tensors["weight"].shape[0]
            self.part = torch.empty(self.each, columns, device="cuda", dtype=rows.dtype)
            self.padded = torch.zeros(self.each * self.world, columns, device="cuda", dtype=rows.dtype)

    def product(self) -> torch.Tensor:
        """The product alone, rows gathered before; with what is added, if that is not to a sum over ranks."""
        result = self.multiply(self.full[: self.m], self.tensors)
        return add(result, self.tensors) if self.kernel["reduce"] == "none" else result

    def together(self) -> torch.Tensor:
        """Product and collective, one after the other: this rank's output."""
        if self.kernel["gather"]:
            dist.all_gather_into_tensor(self.full, self.shard)
        result = self.product()
        if self.kernel["reduce"] == "scatter":
            if len(result) != len(self.padded):
                self.padded[: self.m] = result
                result = self.padded
            dist.reduce_scatter_tensor(self.part, result)
            own = self.part[: max(0, min(self.each, self.m - self.rank * self.each))]
            return add(own, self.tensors)
        if self.kernel["reduce"] == "all":
            dist.all_reduce(result)
            return add(result, self.tensors)
        return result

    def async_tp(self) -> Callable[[], object]:
        """Torch's own overlapped operation. Raises NoSuchOperation where it has none."""
        group, weight = dist.group.WORLD.group_name, self.tensors["weight"].t()
        if {"up", "bias", "residual"} & self.tensors.keys() or self.m % self.world:
            raise NoSuchOperation("torch has no such operation")
        import torch.distributed._symmetric_memory as symmetric_memory  # its operations come with it

        if self.kernel["gather"]:
            shared = symmetric_memory.empty(tuple(self.shard.shape), dtype=self.shard.dtype, device="cuda")
            symmetric_memory.rendezvous(shared, group)
            shared.copy_(self.shard)
            return lambda: torch.ops.symm_mem.fused_all_gather_matmul(shared, [weight], 0, group)
        if self.kernel["reduce"] == "scatter":
            return lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(self.full, weight, "sum", 0, group)
        raise NoSuchOperation("torch has no such operation")

    def expected(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows of this rank's output in double; all ranks ask for as many."""
        if self.kernel["reduce"] == "none":
            return self._with_rows(self.multiply(self.full[rows].double(), self.tensors), rows)
        if self.kernel["reduce"] == "all":
            dist.broadcast(rows, 0)  # the same rows everywhere
            result = self.multiply(self.full[rows].double(), self.tensors)
            dist.all_reduce(result)
            return self._with_rows(result, rows)
        # Rank by rank: everybody's summands of that rank's rows.
        own = torch.empty(0)
        for owner in range(self.world):
            asked = rows + owner * self.each if owner == self.rank else torch.empty_like(rows)
            dist.broadcast(asked, owner)
            result = self.multiply(self.full[asked.clamp(max=self.m - 1)].double(), self.tensors)
            dist.all_reduce(result)
            if owner == self.rank:
                own = result
        return self._with_rows(own, rows) if len(self.tensors["output"]) else own

    def _with_rows(self, result: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """These rows of the output, with bias and residual."""
        chosen = {role: t[rows] if role == "residual" else t for role, t in self.tensors.items()}
        return add(result, chosen)
