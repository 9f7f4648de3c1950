"""kgen expand"""

from __future__ import annotations

from kgen.cli.output import data
from kgen.cli.specs import SpecArgument, spec_path


def expand(spec: SpecArgument) -> None:
    """Print the spec with everything that it leaves out or takes from elsewhere written down."""
    from kgen.frontend.expand import expand_text
    from kgen.spec.load import load_spec

    data(expand_text(load_spec(spec_path(spec))))
