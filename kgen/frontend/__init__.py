"""From a spec to the operator graph."""
