"""Names of tensors in a kernel's graph: looked up, and followed from where they are written to where read."""

from __future__ import annotations

from kgen.diagnostics import Diagnostic, nearest, one_of
from kgen.frontend.kernel.tensors import Tensors
from kgen.ir.kernel.tensor import TensorType
from kgen.spec.document import At


class Flow:
    """Which tensors have been written, where, and which are read. Each is written once at most."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self.spec = tensors.spec
        self.will_be_written = {op.out for op in self.spec.graph}
        self.types: dict[str, TensorType | None] = {}  # of what has a value; None after an error
        self.written: dict[str, At] = {}
        self.read: set[str] = set()

    def read_at(self, at: At, name: str, out: str) -> TensorType | None:
        """The type of the tensor that the name at a path means; None if no more can be said about it.

        `out` is what the operator writes; that it reads the same tensor is told by `write_at`.
        """
        if name in self.types:
            self.read.add(name)
            return self.types[name]
        if name in self.spec.gaps.names or name == out:
            self.read.add(name)
            return None
        if name in self.will_be_written:
            self.read.add(name)
            self.tensors.error(at, f"'{name}' is read before it is written")
            return None
        if name in self.tensors.declared:
            self.read.add(name)
            self.types[name] = self.tensors.declared[name]
            return self.types[name]
        self._unknown(at, name)
        return None

    def write_at(self, at: At, name: str, reads: list[str], kind: str) -> bool:
        """Whether an operator that reads these tensors may write the tensor that is named at a path."""
        if name in reads:
            self.tensors.error(at, f"{kind} cannot write '{name}', which it reads", "another tensor")
            return False
        if name in self.written:
            line = self.spec.span(*self.written[name]).line
            self.tensors.error(at, f"'{name}' is written twice (first on line {line})", "another tensor")
            return False
        self.written[name] = at
        return True

    def check_outputs(self) -> None:
        """Outputs are written, whole or sharded, and named once."""
        if "outputs" in self.spec.gaps.sections:
            return
        for i, name in enumerate(self.spec.outputs):
            at: At = ("outputs", i)
            if name in self.spec.outputs[:i]:
                self.tensors.error(at, f"'{name}' is already an output")
            elif name in self.written:
                self.read.add(name)
                type_ = self.types.get(name)
                if type_ is not None and type_.partial:
                    message = f"'{name}' is partial: every rank has a summand of it, and nothing adds them up"
                    self.tensors.error(at, message, "the output of a reduce_scatter or an all_reduce")
            elif name in self.spec.gaps.names or name in self.will_be_written:
                self.read.add(name)
            elif name in self.tensors.declared:
                self.read.add(name)
                self.tensors.error(at, f"nothing writes '{name}'", one_of(list(self.written)))
            else:
                self._unknown(at, name)

    def unused(self) -> list[Diagnostic]:
        """Tensors that are declared and never named, or written and never read."""
        silent = self.read | self.spec.gaps.names
        errors = [
            Diagnostic(self.spec.key_span(("tensors", name)), f"tensor '{name}' is never used")
            for name in self.spec.tensors
            if name not in silent | self.will_be_written and not self.spec.gaps.graph
        ]
        if "outputs" in self.spec.gaps.sections:
            return errors
        return errors + [
            Diagnostic(
                self.spec.span(*at), f"'{name}' is written here, but nothing reads it and it is no output"
            )
            for name, at in self.written.items()
            if name not in silent
        ]

    def _unknown(self, at: At, name: str) -> None:
        known = {*self.tensors.declared, *self.will_be_written}
        meant = nearest(name, sorted(known | self.spec.gaps.names))
        self.tensors.error(at, f"unknown tensor '{name}'", "" if meant else one_of(sorted(known)), meant)
        self.read.add(meant)  # it counts as used, or one mistake would make two errors
