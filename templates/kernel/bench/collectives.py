"""A collective by NCCL, and what it must give."""

from __future__ import annotations

import torch
import torch.distributed as dist


class Collective:
    """A call on this rank's input. Shards that are not equal are padded for NCCL where it wants them equal.

    What NCCL needs laid out in another way is laid out before, and not timed.
    """

    def __init__(self, what: str, given: torch.Tensor, m: int) -> None:
        self.what, self.given, self.m = what, given, m
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        self.each = -(-m // self.world)
        self.counts = [max(0, min(self.each, m - rank * self.each)) for rank in range(self.world)]
        self.adds = what in ("scatter", "all_reduce")
        columns = given.shape[1]
        if what == "gather":
            self.sent, self.received = (
                self._padded(given, self.each),
                self._new(self.each * self.world, columns),
            )
        elif what == "scatter":
            self.sent, self.received = (
                self._padded(given, self.each * self.world),
                self._new(self.each, columns),
            )
        elif what == "all_reduce":
            self.sent = self.received = given.clone()
        elif what == "to_columns":
            cut = given.view(len(given), self.world, columns // self.world)
            self.sent = cut.transpose(0, 1).reshape(self.world * len(given), -1).contiguous()
            self.received = self._new(m, columns // self.world)
        else:
            self.sent, self.received = given, self._new(self.counts[self.rank] * self.world, columns)

    @property
    def sent_bytes(self) -> int:
        """To peers, by each rank: the least that the collective needs."""
        size = self.given.numel() * self.given.element_size() * (self.world - 1)
        return size if self.what == "gather" else size * (2 if self.what == "all_reduce" else 1) // self.world

    def run(self) -> None:
        """NCCL's part. An all-reduce is in place, so its values grow."""
        if self.what == "gather":
            dist.all_gather_into_tensor(self.received, self.sent)
        elif self.what == "scatter":
            dist.reduce_scatter_tensor(self.received, self.sent)
        elif self.what == "all_reduce":
            dist.all_reduce(self.received)
        else:
            mine = [self.counts[self.rank]] * self.world
            sent, received = (mine, self.counts) if self.what == "to_columns" else (self.counts, mine)
            dist.all_to_all_single(self.received, self.sent, received, sent)

    def result(self) -> torch.Tensor:
        """This rank's output by NCCL, of a run of its own."""
        if self.what == "all_reduce":
            self.received.copy_(self.given)
        self.run()
        if self.what == "gather":
            return self.received[: self.m]
        if self.what == "scatter":
            return self.received[: self.counts[self.rank]]
        if self.what == "to_rows":
            return (
                torch.cat(list(self.received.chunk(self.world)), dim=1)
                if len(self.received)
                else self.received
            )
        return self.received

    def expected(self) -> torch.Tensor:
        """This rank's output in double."""
        if not self.adds:
            return self.result().double()
        total = self.given.double()
        dist.all_reduce(total)
        if self.what == "all_reduce":
            return total
        return total[self.rank * self.each : self.rank * self.each + self.counts[self.rank]]

    def _new(self, rows: int, columns: int) -> torch.Tensor:
        return torch.empty(rows, columns, device="cuda", dtype=self.given.dtype)

    def _padded(self, given: torch.Tensor, rows: int) -> torch.Tensor:
        padded = torch.zeros(rows, given.shape[1], device="cuda", dtype=given.dtype)
        padded[: len(given)] = given
        return padded
