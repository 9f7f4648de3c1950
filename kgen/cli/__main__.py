"""So that `python -m kgen.cli` works where the script is not on the path."""

from kgen.cli.main import main

main()
