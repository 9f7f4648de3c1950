"""Names of dims and tensors as fields of the C struct that a call is given."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.diagnostics import Diagnostic
from kgen.spec.document import At
from kgen.spec.fields import Range
from kgen.spec.kernel import KernelSpec
from kgen.spec.reserved import is_macro, is_word

_SIZE_FIELD, _STRIDE = "struct_bytes", "_stride"
# What headers define that the generated code includes, and arguments of `run` in the binding.
_DEFINED = frozenset(
    [
        "int8_t",
        "int16_t",
        "int32_t",
        "int64_t",
        "uint8_t",
        "uint16_t",
        "uint32_t",
        "uint64_t",
        "intptr_t",
        "uintptr_t",
        "size_t",
        "ptrdiff_t",
        "NULL",
        "EOF",
        "errno",
        "assert",
        "offsetof",
        "stdin",
        "stdout",
        "stderr",
        "NAN",
        "INFINITY",
        "HUGE_VAL",
        "self",
        "stream",
        "sizes",
    ]
)


def check_names(spec: KernelSpec) -> list[Diagnostic]:
    """Names that are words of C++ or Python, and two that would be the same field."""
    taken = {_SIZE_FIELD: "a field of every kernel's arguments"}
    errors = []
    refused: set[At] = set()  # a matrix has two fields
    for name, field, at in _fields(spec):
        if at in refused:
            continue
        if is_word(field):
            message = f"'{name}' is a reserved word, and the generated code has a field '{field}'"
        elif field in _DEFINED or is_macro(field, spec.name.upper()):
            message = f"'{name}' has a meaning of its own where the generated code has a field '{field}'"
        elif field in taken:
            message = f"'{name}' would be the field '{field}' of the arguments, as is {taken[field]}"
        else:
            taken[field] = f"'{name}'"
            continue
        refused.add(at)
        errors.append(Diagnostic(spec.key_span(at), message, "another name"))
    return errors


def _fields(spec: KernelSpec) -> Iterator[tuple[str, str, At]]:
    """Name, field, and where the name is declared: sizes, tensors of the caller, their strides."""
    written = {op.out for op in spec.graph} - set(spec.outputs)
    tensors = [name for name in spec.tensors if name not in written]
    for name, extent in spec.dims.items():
        if isinstance(extent, Range) and extent.first < extent.last:
            yield name, name.lower(), ("dims", name)
    for name in tensors:
        yield name, name, ("tensors", name)
    for name in tensors:
        if len(spec.tensors[name].shape) == 2:
            yield name, name + _STRIDE, ("tensors", name)
