"""kgen compiles a spec of a language model into a standalone C++/CUDA project."""

__version__ = "0.1.0"
