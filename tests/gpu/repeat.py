"""The same greedy request many times in a row: no hang, every output bit-equal.

Usage: repeat.py PROJECT LIBRARY RUNS.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from binding import load_description, load_model, write_random_weights


def main() -> int:
    """Run; the last line is JSON."""
    project, library, runs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    description = load_description(project)
    random = np.random.default_rng(3)
    batch = min(7, description["runtime"]["batch"])
    prompts = [random.integers(0, description["vocab"], n).tolist() for n in (1, 5, 40, 17, 3, 64, 2)[:batch]]
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.kgen"
        write_random_weights(project, weights, seed=4)
        with load_model(project, library, weights) as model:
            first = None
            begin = time.monotonic()
            for _ in range(runs):
                tokens = [list(r.tokens) for r in model.generate(prompts, max_new_tokens=24)]
                bits = [model.logits(s).tobytes() for s in range(batch)]
                first = first or (tokens, bits)
                different += (tokens, bits) != first
            seconds = time.monotonic() - begin
    note = f"{runs} runs of {batch} sequences in {seconds:.1f} s, {different} differ"
    print(json.dumps({"note": note, "runs": runs, "different": different, "seconds": seconds}))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
