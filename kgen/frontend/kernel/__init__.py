"""A kernel's spec to its graph."""
