"""kgen expand"""

from __future__ import annotations

from kgen.cli.output import data
from kgen.cli.specs import SpecArgument, spec_path


def expand(spec: SpecArgument) -> None:
    """Print a spec with everything that it leaves out written down.

    What it takes from elsewhere is written down, too.
    """
    from kgen.frontend.check import load_graph
    from kgen.frontend.expand import expand_text

    loaded, _ = load_graph(spec_path(spec))
    data(expand_text(loaded))
