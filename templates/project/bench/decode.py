"""Time of a decoding step and tokens per second, for some batches and prompt lengths.

    python bench/decode.py [--weights FILE] [--batch 1 4] [--prompt 1 128] [--tokens 64] [--json FILE]

Without --weights a file of random weights is made. The time of a step is the difference of two calls that
differ only in the number of tokens, so the prompt and what a call costs once cancel out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROJECT / "python"), str(PROJECT / "tests")]


def main() -> None:
    spec = json.loads((PROJECT / "model.json").read_text())
    arguments = parse_arguments(spec)
    binding = importlib.import_module(spec["name"])
    with tempfile.TemporaryDirectory() as folder:
        weights = arguments.weights or random_weights(spec, Path(folder))
        with binding.Model(weights, workers=arguments.workers) as model:
            rows = [
                measure(model, batch, length, arguments.tokens, arguments.repeats)
                for batch in arguments.batch
                for length in arguments.prompt
            ]
            print_table(spec["name"], model, rows)
            if arguments.json:
                report = {
                    "model": spec["name"],
                    "cuda": model.info.cuda,
                    "workers": model.info.workers,
                    "rows": rows,
                }
                arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def parse_arguments(spec: dict[str, Any]) -> argparse.Namespace:
    runtime = spec["runtime"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, help="a packed weight file")
    parser.add_argument("--batch", type=int, nargs="+", default=sorted({1, runtime["batch"]}))
    parser.add_argument("--prompt", type=int, nargs="+", default=[min(16, runtime["context"] // 4)])
    parser.add_argument(
        "--tokens", type=int, default=min(64, runtime["context"] // 2), help="of the longer call"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0, help="SMs or threads; 0: all")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


def random_weights(spec: dict[str, Any], folder: Path) -> Path:
    from packed import write_random

    path = folder / "random.weights"
    write_random(spec, path)
    return path


def measure(model: Any, batch: int, length: int, tokens: int, repeats: int) -> dict[str, float]:
    """Medians over `repeats` calls of each kind."""
    prompts = [[(31 * s + 7 * i) % model.info.vocab for i in range(length)] for s in range(batch)]

    def seconds(new: int) -> float:
        start = time.perf_counter()
        model.generate(prompts, max_new_tokens=new)
        return time.perf_counter() - start

    seconds(2)
    first_token = statistics.median(seconds(1) for _ in range(repeats))
    whole = statistics.median(seconds(tokens) for _ in range(repeats))
    step = (whole - first_token) / (tokens - 1)
    return {
        "batch": batch,
        "prompt": length,
        "tokens": tokens,
        "first_token_ms": 1e3 * first_token,
        "step_ms": 1e3 * step,
        "tokens_per_second": batch / step,
        "weights_gb_per_second": model.info.weight_bytes / step / 1e9,
    }


def print_table(name: str, model: Any, rows: list[dict[str, float]]) -> None:
    print(f"{name} on {'GPU' if model.info.cuda else 'host'}, {model.info.workers} workers")
    print(" batch  prompt  first token ms   step ms   tokens/s  weights GB/s")
    for row in rows:
        print(
            f"{row['batch']:6} {row['prompt']:7} {row['first_token_ms']:15.3f} {row['step_ms']:9.3f} "
            f"{row['tokens_per_second']:10.1f} {row['weights_gb_per_second']:13.2f}"
        )


if __name__ == "__main__":
    main()
