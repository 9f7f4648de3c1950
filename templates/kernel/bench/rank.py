"""One rank of the bench: `torchrun rank.py TASK`, where TASK is what overlap.py makes."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from collectives import Collective
from peers import Peers, Work, silu_product

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "python"))
KERNEL: dict[str, Any] = json.loads((PROJECT / "kernel.json").read_text())
DTYPE = {"bf16": torch.bfloat16, "f16": torch.float16}[KERNEL["dtype"]]
# Of the norm of the result: rounding of the result and of summands, and of sums of many products.
TOLERANCE = {"bf16": 8e-3, "f16": 1e-3}[KERNEL["dtype"]]
CHECKED_ROWS = 64
SHARED: list[torch.Tensor] = []  # what peers see stays until the end
GRAPH_SECONDS = 2e-3  # of work in a graph, so that its launch does not count


def slowest(value: float) -> float:
    found = torch.tensor(value, device="cuda", dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def replayed(run: Callable[[], object], replays: int) -> list[float]:
    """Microseconds of a run in each of `replays` replays of a graph, of the slowest rank each, ascending."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        run()
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    runs = max(1, min(20, int(GRAPH_SECONDS / (slowest(begin.elapsed_time(end)) * 1e-3 + 1e-9))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            run()
    times = []
    for replay in range(replays + 3):
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if replay >= 3:
            times.append(begin.elapsed_time(end) * 1e3 / runs)
    all_times = torch.tensor(times, device="cuda", dtype=torch.float64)
    dist.all_reduce(all_times, dist.ReduceOp.MAX)
    return sorted(all_times.tolist())


def launched(run: Callable[[], object], replays: int) -> float:
    """The median of runs that cannot be captured, with the time it takes to launch them."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for replay in range(replays + 3):
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        if replay >= 3:
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

    times = replayed(run, replays)
    kernel.wait()
    row: dict[str, Any] = {
        "sizes": sizes,
        "us": times[len(times) // 2],
        "us_p99": times[int(len(times) * 0.99)],
    }
    given = {role: tensors[name] for role, name in named.items()}
    m = sizes[KERNEL["m"]["dim"]]
    if KERNEL["collective"]:
        return row | collective_row(
            Collective(KERNEL["collective"], given["rows"], m), given, row["us"], replays
        )
    return row | product_row(peers.of(given, m), given, sizes, row["us"], replays, missing)


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


def collective_row(
    work: Collective, given: dict[str, torch.Tensor], us: float, replays: int
) -> dict[str, Any]:
    row = {"gbytes_per_s": work.sent_bytes / us * 1e-3, "nccl_us": replayed(work.run, replays)[replays // 2]}
    expected = work.expected()
    row["error"] = error_of(given["output"], expected)
    row["torch_error"] = error_of(work.result(), expected)
    row["correct"] = row["error"] <= (TOLERANCE if work.adds else 0)
    return row


def product_row(
    work: Work,
    tensors: dict[str, torch.Tensor],
    sizes: dict[str, int],
    us: float,
    replays: int,
    missing: dict[str, str],
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
    row["product_us"] = replayed(work.product, replays)[replays // 2]
    if dist.get_world_size() > 1 and KERNEL["communicates"]:
        row["nccl_us"] = replayed(work.together, replays)[replays // 2]
        row["bound"] = row["nccl_us"] / max(row["product_us"], row["nccl_us"] - row["product_us"])
        try:
            row["async_tp_us"] = launched(work.async_tp(), max(1, replays // 2))
        except (RuntimeError, AttributeError, ImportError, ValueError) as error:
            missing["async TP"] = (str(error) or type(error).__name__).splitlines()[0]
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
