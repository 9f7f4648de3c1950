"""kgen expand"""

from __future__ import annotations

from kgen.cli.output import data
from kgen.cli.specs import SpecArgument, spec_path


def expand(spec: SpecArgument) -> None:
    """Print a spec with everything that it leaves out written down.

    What it takes from elsewhere is written down, too.
    """
    from kgen.frontend.check import LoadedKernel, load_any
    from kgen.frontend.expand import expand_text
    from kgen.frontend.kernel.expand import expand_kernel

    loaded = load_any(spec_path(spec))
    data(expand_kernel(loaded.spec) if isinstance(loaded, LoadedKernel) else expand_text(loaded.spec))
