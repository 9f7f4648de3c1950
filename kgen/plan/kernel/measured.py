"""What was measured on the machine that kernels are tuned for: the inputs of the cost model, in one table."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.ir.kernel.overlap import Transfer


@dataclass(frozen=True)
class Rate:
    """A way of moving bytes: seconds before the first, and bytes per second."""

    latency: float
    rate: float

    @classmethod
    def through(cls, small_bytes: float, small_rate: float, rate: float) -> Rate:
        """From the rate of a small message, latency included, and that of large ones."""
        return cls(small_bytes / small_rate - small_bytes / rate, rate)

    def seconds(self, count: float) -> float:
        """The time of so many bytes."""
        return self.latency + count / self.rate if count else 0.0


@dataclass(frozen=True)
class Narrow:
    """Products of few rows whose sums are exchanged.

    memory: at which the weight is read, which every row makes slower by 1 / rows. around: launch, first
    bytes, last additions. exchange: of the bytes of summands that a rank sends. collective: what NCCL adds.
    """

    memory: float
    rows: float
    around: float
    exchange: Rate
    collective: Rate


@dataclass(frozen=True)
class Machine:
    """A GPU and its link to its peers. Seconds, bytes per second, floating-point operations per second.

    step: 64 steps of K of a 128 x 256 tile on one SM, at full rate. flops: what is sustained by all SMs in
    long products, in which power sets the clock. collective: what NCCL adds to a product, of the bytes that a
    rank sends, from calls that sent `measured`. copies, sums, one_shot: what collectives by themselves take
    besides a launch and their flags, of the bytes that a rank sends: those that only copy, those that add up,
    and all-reduces in one shot.
    """

    name: str
    where: str
    sms: int
    step: float
    flops: float
    memory: float
    launch: float
    graph_launch: float
    flag: float
    collective: Rate
    measured: tuple[float, float]
    copies: Rate
    sums: Rate
    one_shot: Rate
    narrow: Narrow
    transfers: dict[Transfer, Rate]


H200 = Machine(
    name="H200",
    where="two H200 (132 SMs, 18 NVLinks), driver 580, CUDA 13.0, medians",
    sms=132,
    step=0.61e-6,
    flops=780e12,
    memory=4.5e12,
    launch=4.0e-6,
    graph_launch=0.56e-6,
    flag=1.2e-6,  # half of there and back
    # A line through what NCCL 2.28 added to GEMMs, all-gather and reduce-scatter of 17 to 268 MB, no graph.
    collective=Rate(30e-6, 290e9),
    measured=(17e6, 268e6),
    # Through all-gathers of 16 and 128 MiB and an all-to-all of 256 MiB of each rank.
    copies=Rate(3.7e-6, 358e9),
    # Through reduce-scatters of 16 and 128 MiB and an all-reduce of 256 MiB.
    sums=Rate(7e-6, 340e9),
    one_shot=Rate(2e-6, 289e9),  # through all-reduces of 64 KiB and 1 MiB
    # N = 5120, K = 12800 of a rank: 39.8, 40.3, 43.3, 53.2 us for M = 1, 8, 32, 128, where cuBLAS alone took
    # 37.3, 38.1, 37.5, 42.3, and with NCCL 10 more. cuBLAS shows what part of more rows is the product;
    # the rest is that of f32 summands. The line through 1 and 128 rows is within 3% of all.
    narrow=Narrow(
        memory=3.9e12,
        rows=860,
        around=2.4e-6,
        exchange=Rate(4.4e-6, 336e9),
        collective=Rate(10e-6, 290e9),
    ),
    transfers={
        Transfer.REGISTER: Rate(0.0, 368e9),  # stores of 132 SMs; of 16 SMs 338 GB/s
        Transfer.TMA: Rate(0.0, 362e9),  # of 8 SMs
        Transfer.COPY_ENGINE: Rate.through(1e6, 82e9, 394e9),
    },
)
