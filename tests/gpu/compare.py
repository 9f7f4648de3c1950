"""Logits of a generated library against transformers on one random model of exact shape.

The judge is an fp32 run of transformers. The library's relative L2 error may be at most 1.5 times that of
transformers in bf16, for every batch and context. Usage: compare.py PROJECT LIBRARY [--full]
"""

from __future__ import annotations

import copy
import itertools
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

from binding import load_description, load_model
from transformers_models import random_model, write_packed

FULL = tuple(itertools.product((1, 2, 3, 7, 16), (1, 17, 512, 2000)))
QUICK = ((1, 17), (3, 512), (16, 1), (7, 17))
LIMIT = 1.5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def last_logits(network: torch.nn.Module, prompts: list[list[int]]) -> np.ndarray:
    """fp32 logits after the last token of each prompt, [prompts, vocab]."""
    rows = []
    with torch.no_grad():
        for prompt in prompts:
            tokens = torch.tensor([prompt], device=DEVICE)
            rows.append(network(tokens, logits_to_keep=1).logits[0, -1].float().cpu().numpy())
    return np.stack(rows)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """Relative L2 distance of a from b."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def main() -> int:
    """Compare every case; the last line is JSON."""
    project, library = Path(sys.argv[1]), Path(sys.argv[2])
    description = load_description(project)
    exact = random_model(description, seed=1, device=DEVICE)
    rounded = copy.deepcopy(exact).bfloat16()
    random = np.random.default_rng(2)
    worst, rows = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.kgen"
        write_packed(description, exact, weights)
        with load_model(
            project, library, weights, kv_tokens=16 * min(2048, description["runtime"]["context"])
        ) as model:
            cases = FULL if "--full" in sys.argv else QUICK
            for batch, context in cases:
                if batch > model.info.batch or context > model.info.context:
                    continue
                lengths = [context] + [int(random.integers(1, context + 1)) for _ in range(batch - 1)]
                prompts = [random.integers(0, description["vocab"], n).tolist() for n in lengths]
                model.generate(prompts, max_new_tokens=1)
                ours = np.stack([model.logits(s) for s in range(batch)])
                judge = last_logits(exact, prompts)
                error, peer = relative(ours, judge), relative(last_logits(rounded, prompts), judge)
                worst = max(worst, error / peer) if np.isfinite(error) else float("inf")
                rows.append({"batch": batch, "context": context, "kgen": error, "transformers_bf16": peer})
                print(
                    f"batch {batch:2} context {context:4}: {error:.5f} against {peer:.5f} in bf16", flush=True
                )
    note = f"{len(rows)} cases, worst error {worst:.2f} x transformers in bf16 (limit {LIMIT})"
    print(json.dumps({"note": note, "worst": worst, "cases": rows}))
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
