"""A small request that reaches every task, to run under compute-sanitizer.

Usage: smoke.py PROJECT LIBRARY.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from binding import load_description, load_model, write_random_weights


def main() -> int:
    """Generate a few tokens for sequences of different lengths, greedy and sampled."""
    project, library = Path(sys.argv[1]), Path(sys.argv[2])
    description = load_description(project)
    random = np.random.default_rng(5)
    batch = min(3, description["runtime"]["batch"])
    prompts = [random.integers(0, description["vocab"], n).tolist() for n in (1, 21, 5)[:batch]]
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.kgen"
        write_random_weights(project, weights, seed=6)
        # Every wait is much longer under the sanitizer.
        with load_model(project, library, weights, timeout_ms=120_000) as model:
            greedy = model.generate(prompts, max_new_tokens=4)
            model.generate(prompts, max_new_tokens=3, temperature=0.8, top_k=20, top_p=0.9, seed=7)
    print("tokens", [list(r.tokens) for r in greedy])
    return 0


if __name__ == "__main__":
    sys.exit(main())
