"""Time host decoding of SmolLM2: the generated library against transformers on the same cores.

Run where torch, transformers and kgen's dependencies are installed, on an otherwise quiet machine:
python host_decode.py PROJECT MODEL.gguf; PROJECT is built with the host preset and packed (weights.bin).
Runs alternate (kgen, transformers fp32, transformers bf16, kgen, ...), each with its own KV cache, the same
prompt and token count and as many threads as there are cores. Decode speed is tokens after the first over
the time since the first; medians are compared. Writes tests/bench/results/host_decode.json.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from reference import ROOT, load_model
from transformers import LlamaForCausalLM

from kgen.runner import WEIGHTS, find_library, load_binding

PAUSE_SECONDS = 0.3  # so that threads of the run before, which spin for a while, are asleep


def kgen_run(model, prompt: list[int], count: int) -> float:
    times: list[float] = []
    model.generate(
        [prompt], max_new_tokens=count, on_token=lambda _, token: times.append(time.perf_counter())
    )
    return (count - 1) / (times[-1] - times[0])


@torch.inference_mode()
def transformers_run(model: LlamaForCausalLM, prompt: list[int], count: int) -> float:
    out = model(input_ids=torch.tensor([prompt]), use_cache=True)
    token = out.logits[:, -1:].argmax(-1)
    start = time.perf_counter()
    for _ in range(count - 1):
        out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
    token.item()
    return (count - 1) / (time.perf_counter() - start)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/bench/results/host_decode.json")
    args = parser.parse_args()

    load = round(os.getloadavg()[0], 2)
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    reference = json.loads((ROOT / "tests/e2e/reference.json").read_text())
    prompt = reference["prompts"][0]["prompt"]
    library = load_binding(args.project).Model(
        args.project / WEIGHTS, library=find_library(args.project, "host"), workers=cores
    )
    fp32, bf16 = load_model(args.gguf, torch.float32), load_model(args.gguf, torch.bfloat16)
    contestants: dict[str, Callable[[int], float]] = {
        "kgen": lambda count: kgen_run(library, prompt, count),
        "transformers_fp32": lambda count: transformers_run(fp32, prompt, count),
        "transformers_bf16": lambda count: transformers_run(bf16, prompt, count),
    }
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in range(args.runs + 1):  # the first warms up
        for name, decode in contestants.items():
            time.sleep(PAUSE_SECONDS)
            speed = decode(args.tokens)
            if run:
                speeds[name].append(round(speed, 2))
                print(f"run {run}: {name:18} {speed:8.2f} tokens/s", flush=True)
    median = {name: statistics.median(values) for name, values in speeds.items()}
    best = max(median["transformers_fp32"], median["transformers_bf16"])
    result = {
        "what": "host decode of SmolLM2-135M-Instruct, batch 1, tokens per second",
        "commit": commit(),
        "cpu": processor(),
        "cores": cores,
        "load_average_before": load,
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        },
        "prompt_tokens": len(prompt),
        "new_tokens": args.tokens,
        "tokens_per_second": speeds,
        "median": median,
        "ratio": round(median["kgen"] / best, 3),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({"median": median, "ratio": result["ratio"]}))


if __name__ == "__main__":
    main()
