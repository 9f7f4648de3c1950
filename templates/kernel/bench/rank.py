"""One rank of the bench: `torchrun rank.py TASK`, where TASK is what overlap.py makes."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from collectives import Collective
from peers import NoSuchOperation, Peers, Work, silu_product

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "python"))
KERNEL: dict[str, Any] = json.loads((PROJECT / "kernel.json").read_text())
DTYPE = {"bf16": torch.bfloat16, "f16": torch.float16}[KERNEL["dtype"]]
# Of the norm of the result: rounding of the result and of summands, and of sums of many products.
TOLERANCE = {"bf16": 8e-3, "f16": 1e-3}[KERNEL["dtype"]]
CHECKED_ROWS = 64
SHARED: list[torch.Tensor] = []  # what peers see stays until the end
GRAPH_SECONDS = 2e-3  # of work in a graph, so that its launch does not count
MOST_RUNS = 200  # in a graph
WARM_UP = 3  # launches that are not counted
TURN = 10  # replays in a row that are counted, after as many that are not


def slowest(value: float) -> float:
    found = torch.tensor(value, device="cuda", dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


@dataclass(frozen=True)
class Graph:
    """Several runs of the same work; they take some GRAPH_SECONDS."""

    graph: torch.cuda.CUDAGraph
    runs: int

    def replay(self) -> float:
        """Microseconds of a run, on this rank."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        self.graph.replay()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e3 / self.runs


def captured(run: Callable[[], object]) -> Graph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        run()
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    runs = max(1, min(MOST_RUNS, int(GRAPH_SECONDS / (slowest(begin.elapsed_time(end)) * 1e-3 + 1e-9))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            run()
    return Graph(graph, runs)


def replayed(works: dict[str, Callable[[], object]], replays: int) -> dict[str, list[float]]:
    """Microseconds of a run of each work in each replay of its graph, of the slowest rank each, ascending.

    They take turns, as a chip that has worked for a while is hotter and slower, which must not tell for one;
    and the first replays of a turn are not counted, as power and clocks are still those of the work before.
    """
    graphs = {name: captured(work) for name, work in works.items()}
    times: dict[str, list[float]] = {name: [] for name in works}
    for first in range(0, replays, TURN):
        for name, graph in graphs.items():
            counted = min(TURN, replays - first)
            times[name] += [graph.replay() for _ in range(TURN + counted)][TURN:]
    slowest_times = torch.tensor(list(times.values()), device="cuda", dtype=torch.float64)
    dist.all_reduce(slowest_times, dist.ReduceOp.MAX)
    return {name: sorted(of_work) for name, of_work in zip(works, slowest_times.tolist(), strict=True)}


def launched(run: Callable[[], object], replays: int) -> float:
    """The median of runs that cannot be captured, with the time it takes to launch them."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for replay in range(replays + WARM_UP):
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        if replay >= WARM_UP:
            times.append(begin.elapsed_time(end) * 1e3)
    return slowest(sorted(times)[len(times) // 2])


def error_of(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Over all ranks, of the norm of the expected; infinite where something is not a number."""
    difference = (found.double() - expected).square().sum()
    sums = torch.stack([difference, expected.square().sum()])
    dist.all_reduce(sums)
    value = (sums[0] / sums[1]).sqrt().item()
    return value if value == value else float("inf")


def case_row(
    kernel: Any, peers: Peers, sizes: dict[str, int], replays: int, missing: dict[str, str]
) -> dict[str, Any]:
    tensors = make_tensors(kernel, sizes)
    for about in KERNEL["tensors"]:
        tensor = tensors[about["name"]].normal_()
        if KERNEL["reduce"] != "none" and about["role"] in ("bias", "residual") and about["shard"] is None:
            dist.broadcast(tensor, 0)  # added once, to a sum over ranks: the same everywhere
    named = {tensor["role"]: tensor["name"] for tensor in KERNEL["tensors"]}
    output = named["output"]
    tensors[output].fill_(float("nan"))
    if "up" in named:  # so that the product of two sums is a number in f16 too
        tensors[named["up"]] *= sizes[KERNEL["k"]["dim"]] ** -0.5

    def run() -> None:
        kernel.run(stream=torch.cuda.current_stream().cuda_stream, sizes=sizes, **tensors)

    given = {role: tensors[name] for role, name in named.items()}
    m = sizes[KERNEL["m"]["dim"]]
    several = dist.get_world_size() > 1
    if KERNEL["collective"]:
        alone = Collective(KERNEL["collective"], given["rows"], m)
        works: dict[str, Callable[[], object]] = {"nccl": alone.run}
    else:
        work = peers.of(given, m)
        works = {"product": work.product}
        if several and KERNEL["communicates"]:
            works["nccl"] = work.together
    times = replayed({"this": run} | works, replays)
    kernel.wait()
    medians = {name: of_work[replays // 2] for name, of_work in times.items()}
    row: dict[str, Any] = {
        "sizes": sizes,
        "us": medians.pop("this"),
        "us_p99": times["this"][int(replays * 0.99)],
    }
    row |= {f"{name}_us": median for name, median in medians.items()}
    if KERNEL["collective"]:
        return row | collective_row(alone, given, row["us"])
    row |= product_row(work, given, sizes, row["us"])
    if "nccl_us" in row:
        row["bound"] = row["nccl_us"] / max(row["product_us"], row["nccl_us"] - row["product_us"])
        try:
            row["async_tp_us"] = launched(work.async_tp(), max(1, replays // 2))
        except (NoSuchOperation, RuntimeError, AttributeError, ImportError, ValueError) as error:
            missing["async TP"] = (str(error) or type(error).__name__).splitlines()[0]
    return row


def make_tensors(kernel: Any, sizes: dict[str, int]) -> dict[str, torch.Tensor]:
    """This rank's tensors. Where peers can use them themselves they lie in one block that is shown to all.

    Each begins at the same place of the block on every rank: those whose rows are dealt come last.
    """
    world, aligned = dist.get_world_size(), 128
    places, room = {}, 0
    for tensor in sorted(KERNEL["tensors"], key=lambda tensor: tensor["shard"] == 0):
        largest = [sizes[dim] for dim in tensor["shape"]]
        if tensor["shard"] is not None:
            largest[tensor["shard"]] = -(-largest[tensor["shard"]] // world)
        places[tensor["name"]] = room
        room += -(-math.prod(largest) // aligned) * aligned
    block = torch.empty(room, device="cuda", dtype=DTYPE)
    if KERNEL["shares"]:
        SHARED.append(block)
        kernel.share(block.data_ptr(), block.numel() * block.element_size())
    shapes = {name: kernel.local_shape(name, sizes) for name in places}
    return {name: block[at : at + math.prod(shapes[name])].view(shapes[name]) for name, at in places.items()}


def collective_row(work: Collective, given: dict[str, torch.Tensor], us: float) -> dict[str, Any]:
    row = {"gbytes_per_s": work.sent_bytes / us * 1e-3}
    expected = work.expected()
    row["error"] = error_of(given["output"], expected)
    row["torch_error"] = error_of(work.result(), expected)
    row["correct"] = row["error"] <= (TOLERANCE if work.adds else 0)
    return row


def product_row(
    work: Work, tensors: dict[str, torch.Tensor], sizes: dict[str, int], us: float
) -> dict[str, Any]:
    m, n, k = (
        sizes[KERNEL[axis]["dim"]] // (dist.get_world_size() if KERNEL[axis]["split"] else 1)
        for axis in "mnk"
    )
    row: dict[str, Any] = {"tflops": 2 * m * n * k * (2 if KERNEL["silu_mul"] else 1) / us * 1e-6}
    output = tensors["output"]
    rows = torch.randint(0, max(1, len(output)), (CHECKED_ROWS,), device="cuda")
    expected = work.expected(rows)
    if not len(output):  # this rank has none; it has asked all the same, as all must
        rows, expected = rows[:0], expected[:0]
    row["error"] = error_of(output[rows], expected)
    row["torch_error"] = error_of(work.together()[rows], expected)
    row["correct"] = row["error"] <= TOLERANCE
    if "gathered" in tensors:
        same = torch.equal(tensors["gathered"], work.full[:m])
        row["correct"] = slowest(0.0 if same else 1.0) == 0 and row["correct"]  # on all ranks
    return row


def main() -> None:
    from importlib import import_module

    task = json.loads(sys.argv[1])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    missing: dict[str, str] = {}
    torch.manual_seed(rank)
    with import_module(KERNEL["name"]).Kernel(rank, world) as kernel:
        peers = Peers(KERNEL, silu_product)
        rows = [case_row(kernel, peers, sizes, task["replays"], missing) for sizes in task["cases"]]
    if rank == 0:
        about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
        about |= {
            "commit": os.environ.get("KGEN_COMMIT", ""),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        }
        report = {"kernel": KERNEL["name"], "digest": KERNEL["digest"], "world": world, **about}
        Path(task["report"]).write_text(
            json.dumps(report | {"cases": rows, "missing": missing}, indent=1) + "\n"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
