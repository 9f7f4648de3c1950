"""Names that a model cannot have: it becomes a C prefix, a library, a CMake target and a Python module."""

from __future__ import annotations

import errno
import keyword
import re
import sys

# Keywords of C and C++, macros that compilers predefine, and what the generated code itself uses.
_CXX = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t
class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue
decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
protected public register reinterpret_cast requires restrict return short signed sizeof static
static_assert static_cast struct switch template this thread_local throw true try typedef typeid
typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
i386 linux unix
main mpk pk std
"""
_CMAKE = """
all clean cmake edit_cache embed
help install list_install_components package package_source rebuild_cache test
"""
_C_LIBRARY = "cnd mtx pthread sem thrd timer tss"  # has functions such as sem_wait and timer_create
# A libNAME.so of these names would stand in for the system's where the linker or the loader looks for it.
_SYSTEM = """
anl archive asan atomic blas bz2 c c_nonshared crypt crypto curl dl expat ffi g gcc gcc_s gfortran gmp gomp
itm jpeg lapack lsan lzma m mvec ncurses nsl numa omp openblas pcre png python quadmath readline resolv rt
sqlite3 ssl ssp stdc tbb tsan ubsan udev util uuid xml2 z zstd
cublas cuda cudadevrt cudart cudnn cufft cupti curand cusolver cusparse nccl nvidia nvjitlink nvrtc nvtx
"""
# What tests and benches of generated projects import, and their own files.
_HARNESS = """
cases check collectives conftest decode driver elements expected machine measure memory overlap packed peer
peers problem project prompts rank ranks reference table torch_decode torch_reference torch_weights worker
test_arguments test_batching test_binding test_cuda test_lifetime test_processes test_reference test_results
test_sampling test_share test_timeline test_torch_reference test_weight_file
numpy pytest torch
"""
# Macros of limits.h, stdint.h and the header library, and names that C keeps for its compilers.
_MACRO = re.compile(r"[A-Z][A-Z0-9_]*_(MAX|MIN|WIDTH|BIT)|U?INT[0-9A-Z]+_C|PK_[A-Z0-9_]+|_[A-Z_]\w*")

_WORDS = frozenset(_CXX.split())
_TARGETS = frozenset(_CMAKE.split())
_PREFIXES = frozenset(_C_LIBRARY.split())
_LIBRARIES = frozenset(_SYSTEM.split())
_MODULES = frozenset(_HARNESS.split()) | sys.stdlib_module_names
_ERRORS = frozenset([*dir(errno), "EHWPOISON"])


def reserved(name: str) -> str:
    """Why a model cannot have this name, as the rest of a sentence; empty when it can."""
    if is_word(name) or name.startswith("mpk_"):
        return "is a reserved word"
    if name in _TARGETS:
        return "is a target of every generated project"
    if name in _PREFIXES:
        return "is the prefix of functions of the C library"
    if name in _LIBRARIES:
        return f"would make a lib{name}.so, which is the name of a system library"
    if name in _MODULES:
        return "is the name of a Python module"
    return ""


def is_word(name: str) -> bool:
    """Whether C, C++ or Python has it for itself, so that no field or variable can be called so."""
    return name in _WORDS or keyword.iskeyword(name)


def is_macro(name: str, prefix: str) -> bool:
    """Whether what generated code includes may define it; `prefix` is that of the project's macros."""
    of_project = name.startswith(f"{prefix}_") and name.isupper()
    return of_project or name in _ERRORS or _MACRO.fullmatch(name) is not None
