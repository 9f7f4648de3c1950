"""Time of a decoding step and tokens per second, for some batches and prompt lengths.

    python bench/decode.py [--weights FILE] [--batch 1 4] [--prompt 1 128] [--tokens 64] [--json FILE]

Without --weights a file of random weights is made. The time of a step is the difference of two calls that
differ only in the number of tokens, so the prompt and what a call costs once cancel out; of each kind of call
the quickest counts. Where noise leaves no positive difference, `-` is printed (null in JSON). Sizes that are
too large for the model are cut to what fits: tokens first, then prompts to the rest of the context.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROJECT / "python"), str(PROJECT / "tests")]


def main() -> int:
    try:
        spec = json.loads((PROJECT / "model.json").read_text())
        run(spec, parse_arguments(spec["runtime"]))
    except OSError as error:
        print(f"{error.filename}: {error.strerror}" if error.filename else error, file=sys.stderr)
        return 2
    except RuntimeError as error:  # a ModelError, or a library of another version
        print(error, file=sys.stderr)
        return 2
    return 0


def run(spec: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure, print and write what was asked for."""
    binding = importlib.import_module(spec["name"])
    with tempfile.TemporaryDirectory() as folder:
        weights = arguments.weights or random_weights(spec, Path(folder))
        with binding.Model(weights, workers=arguments.workers) as model:
            tokens, cases = fit(arguments, model.info.batch, model.info.context)
            rows = [measure(model, batch, length, tokens, arguments.repeats) for batch, length in cases]
            print_table(spec["name"], model, rows)
            if arguments.json:
                report = {
                    "model": spec["name"],
                    "cuda": model.info.cuda,
                    "workers": model.info.workers,
                    "rows": rows,
                }
                arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def parse_arguments(runtime: dict[str, int]) -> argparse.Namespace:
    context = runtime["context"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = " [default: %(default)s]"

    def add(name: str, least: int, value: Any, text: str, **more: Any) -> None:
        parser.add_argument(name, type=at_least(least), default=value, help=text + default, **more)

    parser.add_argument("--weights", type=Path, help="a packed weight file [default: random weights]")
    add("--batch", 1, sorted({1, runtime["batch"]}), "sequences decoded at once", nargs="+")
    add("--prompt", 1, [max(1, min(16, context // 4))], "tokens of each prompt", nargs="+")
    add("--tokens", 2, max(2, min(64, context // 2)), "tokens that the longer call generates, 2 or more")
    add("--repeats", 1, 5, "calls of each kind, of which the quickest counts")
    add("--workers", 0, 0, "SMs or threads; 0: all")
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


def fit(arguments: argparse.Namespace, batch: int, context: int) -> tuple[int, list[tuple[int, int]]]:
    """What was asked for, cut to the sizes of the model: tokens, and each batch with each prompt length."""
    tokens = min(arguments.tokens, max(2, context - 1))
    longest = max(1, context - tokens)
    asked = [(b, length) for b in arguments.batch for length in arguments.prompt]
    cases = list(dict.fromkeys((min(b, batch), min(length, longest)) for b, length in asked))
    if tokens < arguments.tokens or not set(asked) <= set(cases):
        print(f"cut to batch {batch}, context {context}, prompt {longest}, tokens {tokens}", file=sys.stderr)
    return tokens, cases


def random_weights(spec: dict[str, Any], folder: Path) -> Path:
    from packed import write_random

    path = folder / "random.weights"
    write_random(spec, path)
    return path


def measure(model: Any, batch: int, length: int, tokens: int, repeats: int) -> dict[str, Any]:
    """The quickest of `repeats` calls of each kind; None for what follows from a step that has no time."""
    prompts = [[(31 * s + 7 * i) % model.info.vocab for i in range(length)] for s in range(batch)]

    def seconds(new: int) -> float:
        start = time.perf_counter()
        model.generate(prompts, max_new_tokens=new)
        return time.perf_counter() - start

    seconds(2)
    first_token = min(seconds(1) for _ in range(repeats))
    whole = min(seconds(tokens) for _ in range(repeats))
    step = (whole - first_token) / (tokens - 1)
    known = step > 0
    return {
        "batch": batch,
        "prompt": length,
        "tokens": tokens,
        "first_token_ms": 1e3 * first_token,
        "step_ms": 1e3 * step if known else None,
        "tokens_per_second": batch / step if known else None,
        "weights_gb_per_second": model.info.weight_bytes / step / 1e9 if known else None,
    }


def print_table(name: str, model: Any, rows: list[dict[str, Any]]) -> None:
    print(f"{name} on {'GPU' if model.info.cuda else 'host'}, {model.info.workers} workers")
    print(" batch  prompt  first token ms   step ms   tokens/s  weights GB/s")
    for row in rows:
        print(
            f"{row['batch']:6} {row['prompt']:7} {row['first_token_ms']:15.3f} "
            f"{figure(row['step_ms'], 3):>9} {figure(row['tokens_per_second'], 1):>10} "
            f"{figure(row['weights_gb_per_second'], 2):>13}"
        )


def figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    sys.exit(main())
