"""Step time of a generated library, by the project's own bench. Usage: decode.py PROJECT BATCH CONTEXT"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Run the bench; the last line is JSON."""
    project, batch, context = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        bench = [sys.executable, project / "bench" / "decode.py", "--json", file.name]
        done = subprocess.run(
            [*map(str, bench), "--batch", batch, "--prompt", context, "--tokens", "64"],
            env=os.environ,
            check=False,
        )
        if done.returncode != 0:
            return done.returncode
        (row,) = json.loads(Path(file.name).read_text())["rows"]
    step = "no figure for" if row["step_ms"] is None else f"{row['step_ms']:.3f} ms"
    note = f"kgen, batch {batch}, context {context}: {step} a step"
    print(json.dumps({"note": note, **row}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
