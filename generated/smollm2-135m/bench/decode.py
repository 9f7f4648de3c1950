"""Time of a decoding step, held against the memory of the machine and against PyTorch, and checked.

    python bench/decode.py [--case 1x64 16x1024] [--weights FILE] [--steps 10000] [--json FILE]

Without --weights a file of random weights is made. The time of a step is the difference of two calls that
differ only in the number of tokens, so the prompt and what a call costs once cancel out; of several pairs of
calls the median counts. Where noise leaves no positive difference, `-` is printed (null in JSON). In the same
run, on a GPU:
 - read_ceiling.cu measures how fast memory can be read
 - torch_decode.py, where PyTorch with CUDA is installed, times the same step compiled, in a CUDA graph
Of every case the logits are compared with the model in fp32, in PyTorch or NumPy; they may be 1.5 times as
wrong as that model in bf16. All calls of a case must give the same bits. Exit 1 when a check fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

PROJECT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROJECT / "bench"), str(PROJECT / "tests")]

from cases import Request, default_cases, fit, parse_case, step_bytes  # noqa: E402
from check import check_logits, make_judge  # noqa: E402
from machine import Unknown, about, kernel_report, read_ceiling  # noqa: E402
from measure import Timing, endure, measure  # noqa: E402
from peer import has_cuda_torch, torch_steps  # noqa: E402
from table import is_wrong, print_table, summary  # noqa: E402

T = TypeVar("T")


def main() -> int:
    arguments = parse_arguments()
    try:
        if arguments.json:
            arguments.json.write_text("")  # where it cannot be written, that is said before minutes are spent
        report = run(json.loads((PROJECT / "model.json").read_text()), arguments)
        print_table(report)
        if arguments.json:
            arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    except OSError as error:
        print(f"{error.filename}: {error.strerror}" if error.filename else error, file=sys.stderr)
        return 2
    except RuntimeError as error:  # a ModelError, or a library of another version
        print(error, file=sys.stderr)
        return 2
    return 1 if any(map(is_wrong, report["cases"])) else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = " [default: %(default)s]"
    parser.add_argument(
        "--case",
        type=parse_case,
        nargs="+",
        action="extend",
        metavar="BATCHxCONTEXT",
        help="sequences decoded at once, and the tokens that the cache of each holds "
        "[default: 1x64, 1x1024 and the largest batch at 1024; on the host at 64]",
    )
    parser.add_argument("--weights", type=Path, help="a packed weight file [default: random weights]")
    parser.add_argument(
        "--tokens", type=at_least(2), default=128, help="tokens that the longer call generates" + default
    )
    parser.add_argument("--repeats", type=at_least(1), default=9, help="pairs of calls" + default)
    parser.add_argument(
        "--steps",
        type=at_least(0),
        default=0,
        help="steps to decode besides, in calls that must agree" + default,
    )
    parser.add_argument("--workers", type=at_least(0), default=0, help="SMs or threads; 0: all" + default)
    parser.add_argument("--no-torch", action="store_true", help="use no PyTorch, even where it is installed")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


def at_least(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number, `least` or more."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    return number


def run(spec: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure and check what was asked for; the report is what --json writes."""
    missing: dict[str, str] = {}  # what could not be had: why

    def attempt(what: str, get: Callable[[], T]) -> T | None:
        try:
            return get()
        except Unknown as reason:
            missing[what] = str(reason)
            return None

    binding = load_binding(spec["name"])
    library = binding.Library()
    build = library.path.resolve().parent
    use_torch = not arguments.no_torch and has_cuda_torch()
    ceiling = attempt("read ceiling", lambda: read_ceiling(build / f"{spec['name']}_read_ceiling"))
    with tempfile.TemporaryDirectory() as folder:
        weights = arguments.weights or random_weights(spec, Path(folder), use_torch)
        with binding.Model(weights, library=library, workers=arguments.workers) as model:
            info = model.info
            requests = requests_of(arguments, info)
            timings = [measure(model, request, arguments.repeats) for request in requests]
            rows = [figures(spec, r, t, ceiling) for r, t in zip(requests, timings, strict=True)]
            for row, request in zip(rows, requests, strict=True) if arguments.steps else ():
                row["endurance"] = endure(model, request, arguments.steps)
        judge = attempt("logits check", lambda: make_judge(spec, weights, use_torch))
        for row, timing in zip(rows, timings, strict=True) if judge else ():
            row |= check_logits(judge, timing.sequences, timing.logits)
        del judge
    if info.cuda and not arguments.no_torch:
        steps, reason = torch_steps([(request.batch, round(request.context)) for request in requests])
        if reason:
            missing["PyTorch" if not steps else f"PyTorch after case {len(steps)}"] = reason
        for row, step in zip(rows, steps, strict=False):
            row["torch_step_us"] = step
            row["torch_ratio"] = None if row["step_us"] is None else step / row["step_us"]
    report = {
        "what": "time of a decoding step",
        "about": about(PROJECT),
        "model": spec["name"],
        "weights": arguments.weights.name if arguments.weights else "random",
        "cuda": info.cuda,
        "workers": info.workers,
        "kernel": kernel_report(build),
        "ceiling": ceiling,
        "missing": missing,
        "cases": rows,
    }
    return {"note": summary(report), **report}


def load_binding(name: str) -> ModuleType:
    """The project's Python binding, under a name that hides no module."""
    found = importlib.util.spec_from_file_location(f"binding_{name}", PROJECT / "python" / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


def random_weights(spec: dict[str, Any], folder: Path, use_torch: bool) -> Path:
    from packed import normal_rows, write_random

    if use_torch:
        from torch_weights import normal_rows
    path = folder / "random.weights"
    write_random(spec, path, make_rows=normal_rows)
    return path


def requests_of(arguments: argparse.Namespace, info: Any) -> list[Request]:
    """The calls for every case, said aloud where a case is cut to what the model takes."""
    cases = arguments.case or default_cases(info.batch, info.cuda)
    requests = {case: fit(case, arguments.tokens, info.batch, info.context) for case in cases}
    for case, request in requests.items():
        if (request.batch, request.context) != (case.batch, case.context):
            measured = f"batch {request.batch}, context {request.context:g}"
            print(f"{case}: measured at {measured}, which this model takes", file=sys.stderr)
    return list(dict.fromkeys(requests.values()))


def figures(
    spec: dict[str, Any], request: Request, timing: Timing, ceiling: dict[str, Any] | None
) -> dict[str, Any]:
    """What follows from the times of a request; None for what follows from a step that has no time."""
    step = timing.step_us
    size = step_bytes(spec, request.batch, request.context)
    rate = None if step is None else size / step / 1e6
    peak = None if ceiling is None else ceiling["tb_per_second"]
    return {
        "batch": request.batch,
        "context": request.context,
        "step_us": step,
        "step_us_lowest": timing.steps[0],
        "step_us_highest": timing.steps[-1],
        "repeats": len(timing.steps),
        "tokens_per_second": None if step is None else 1e6 * request.batch / step,
        "bytes": size,
        "tb_per_second": rate,
        "floor_us": None if peak is None else size / peak / 1e6,
        "ceiling_share": None if rate is None or peak is None else rate / peak,
        "first_token_ms": timing.first_token_ms,
        "changed": timing.changed,
    }


if __name__ == "__main__":
    sys.exit(main())
