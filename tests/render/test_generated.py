import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_generated_is_up_to_date() -> None:
    """`python ci/regenerate.py` mends it."""
    command = [sys.executable, ROOT / "ci" / "regenerate.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
