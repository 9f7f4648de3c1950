"""What was measured on the machine that kernels are tuned for: the inputs of the cost model, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

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
class Curve:
    """Times of messages by their bytes, interpolated; of fewer than `own`, those of another collective."""

    points: tuple[tuple[float, float], ...]
    own: float

    def seconds(self, count: float) -> float:
        """The time of so many bytes, no less than that of the first point; the last two go on."""
        if count == 0:
            return 0.0
        pairs = list(pairwise(self.points))
        (least, low), (most, high) = next((pair for pair in pairs if count <= pair[1][0]), pairs[-1])
        return max(self.points[0][1], low + (count - least) * (high - low) / (most - least))


@dataclass(frozen=True)
class Reading:
    """Products of few rows, which take as long as the weight takes to be read.

    around: before the first bytes and after the last. memory: at which it is read, which every row makes
    slower by 1 / rows.
    """

    around: float
    memory: float
    rows: float

    def seconds(self, count: float, m: int) -> float:
        """Of a weight of so many bytes, and m rows."""
        return self.around + count / self.memory * (1 + m / self.rows)


@dataclass(frozen=True)
class Narrow:
    """Products of few rows by the kernel that reads the weight once: alone, and between ranks.

    exchange: of the bytes of summands that a rank sends; gather: of those of rows.
    """

    alone: Reading
    between: Reading
    exchange: Rate
    gather: Rate


@dataclass(frozen=True)
class Machine:
    """A GPU and its link to its peers. Seconds, bytes per second, floating-point operations per second.

    step: 64 steps of K of a 128 x 256 tile on one SM, at full rate. flops: what is sustained by all SMs in
    long products, in which power sets the clock. around: what a generated product takes before the first
    tile is multiplied and after the last. library: cuBLAS. all_reduce, collective: NCCL's, of the bytes that
    a rank sends. copies, sums, one_shot: what collectives by themselves take besides a launch and their
    flags, of the bytes that a rank sends: those that only copy, those that add up, and all-reduces in one
    shot. few: SMs, and what they store to a peer.
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
    library: Reading
    around: float
    all_reduce: Curve
    collective: Curve
    copies: Rate
    sums: Rate
    one_shot: Rate
    narrow: Narrow
    transfers: dict[Transfer, Rate]
    few: tuple[int, float]

    def stores(self, sms: int) -> Rate:
        """What so many SMs store to a peer.

        Each has its part of what `few` do, or, past those, of what the rest adds.
        """
        count, rate = self.few
        if sms <= count:
            return Rate(0.0, rate * sms / count)
        more = self.transfers[Transfer.REGISTER].rate - rate
        return Rate(0.0, rate + more * (sms - count) / (self.sms - count))


MIB = 1 << 20
_SMALL = ((MIB / 16, 10.7e-6), (MIB / 4, 15.1e-6), (MIB, 20.3e-6), (2 * MIB, 32.9e-6))  # by NCCL

# Times are medians of replays of CUDA graphs, and so with a launch.
H200 = Machine(
    name="H200",
    where="two H200 (132 SMs, 18 NVLinks), driver 580, CUDA 13.0, medians",
    sms=132,
    step=0.61e-6,
    flops=740e12,
    memory=4.5e12,
    launch=4.0e-6,
    graph_launch=0.56e-6,
    flag=1.2e-6,  # half of there and back
    # cuBLAS of (M, N, K) of a rank, us: (1, 4032, 4104) 11.6, (128, 4096, 4160) 13.1, (2048, 2048, 1024)
    # 15.7, (4096, 4096, 2048) 96, (1, 5120, 12800) 37.6, (128, 5120, 12800) 43.2. Within 10% of them.
    library=Reading(around=2.2e-6, memory=3.77e12, rows=860),
    around=5.4e-6,  # (2048, 2048, 1024) takes 17.3 us, of which 16 steps of its one round are 10
    # NCCL in the same run: all-reduces of 64 KiB to 256 MiB.
    all_reduce=Curve((*_SMALL, (16 * MIB, 81.8e-6), (64 * MIB, 256e-6), (256 * MIB, 904e-6)), own=MIB / 16),
    # All-gathers and reduce-scatters of 16 and 128 MiB in all (56.8 and 53.2, 304 and 309), of which a rank
    # sends half, an all-to-all of 256 MiB of each rank; small ones as the all-reduces.
    collective=Curve((*_SMALL, (8 * MIB, 55e-6), (64 * MIB, 306e-6), (128 * MIB, 479e-6)), own=8 * MIB),
    # Through all-gathers of 16 and 128 MiB and an all-to-all of 256 MiB of each rank.
    copies=Rate(3.7e-6, 358e9),
    # Through reduce-scatters of 16 and 128 MiB and an all-reduce of 256 MiB.
    sums=Rate(7e-6, 340e9),
    one_shot=Rate(2e-6, 289e9),  # through all-reduces of 64 KiB and 1 MiB
    narrow=Narrow(
        # (1, 4096, 4096) 8.5, (1, 14336, 4096) 31.0, (1, 8192, 8192) 35.9, (128, 14336, 4096) 41.2,
        # (128, 5120, 12800) 47.2. Launches overlap. Within 6%.
        alone=Reading(around=0.5e-6, memory=3.75e12, rows=420),
        # N = 5120, K = 12800 of a rank: 39.8, 40.3, 43.3, 53.2 us for M = 1, 8, 32, 128; N = 4096, K = 4160:
        # 25.2 for M = 128. cuBLAS shows what part of more rows is the product; the rest is that of f32
        # summands. Within 3% of all, as the kernel was then; no two GPUs have run it since.
        between=Reading(around=5.4e-6, memory=4.4e12, rows=860),
        exchange=Rate(4.4e-6, 336e9),
        # (M, N, K) (1, 4032, 4104), (16, 4096, 8192), (128, 4096, 4160): 21.9, 34.7, 28.9 us; within 8%.
        gather=Rate(10.5e-6, 97e9),
    ),
    transfers={
        Transfer.REGISTER: Rate(0.0, 368e9),  # stores of 132 SMs
        Transfer.TMA: Rate(0.0, 362e9),  # of 8 SMs
        Transfer.COPY_ENGINE: Rate.through(1e6, 82e9, 394e9),
    },
    few=(16, 338e9),
)
