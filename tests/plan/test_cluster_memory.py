"""The sums about shared memory against those of the C++ header."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

from kgen.paths import project_templates
from kgen.plan.cluster_memory import PAGE_BYTES, ROW_SIZES, beside_ring, ring_pages, rows_that_fit

MODELS = {  # layers, hidden, heads, kv_heads, head, ffn
    "Llama1B": (16, 2048, 32, 8, 64, 8192),
    "Llama8B": (32, 4096, 32, 8, 128, 14336),
    "Qwen600M": (28, 1024, 16, 8, 128, 3072),
    "Qwen1700M": (28, 2048, 16, 8, 128, 6144),
    "Qwen8B": (36, 4096, 32, 8, 128, 12288),
    "Tiny": (2, 512, 16, 8, 64, 1024),
    "Odd": (5, 768, 24, 8, 64, 32 * 37),
}


def test_the_header_has_the_same_layout(tmp_path: Path) -> None:
    source = '#include <cstdio>\n#include "mpk/cluster/layout.hpp"\n'
    names = ["layers", "hidden", "heads", "kv_heads", "head", "ffn"]
    for model, values in MODELS.items():
        fields = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        source += f"struct {model} {{ static constexpr std::uint32_t {fields}, vocab = 1024; }};\n"
    source += "template <class D, unsigned R> void show() {\n  using L = mpk::cluster::Layout<D, R>;\n"
    source += '  std::printf("%u %u\\n", unsigned(L::bytes), unsigned(L::pages));\n}\nint main() {\n'
    cases = [(model, rows) for model in MODELS for rows in ROW_SIZES]
    source += "".join(f"  show<{model}, {rows}>();\n" for model, rows in cases) + "}\n"
    (tmp_path / "show.cpp").write_text(source)
    include = project_templates() / "include"
    flags = ["-std=c++20", "-Wno-psabi", f"-I{include}"]
    subprocess.run(["g++", *flags, "show.cpp", "-o", "show"], cwd=tmp_path, check=True)
    lines = subprocess.check_output([tmp_path / "show"], text=True).splitlines()
    for (model, rows), line in zip(cases, lines, strict=True):
        layers, *rest = MODELS[model]
        sizes = SimpleNamespace(**dict(zip(names[1:], rest, strict=True)))
        pages = ring_pages(sizes, layers, rows)
        expected = f"{beside_ring(sizes, layers, rows) + pages * PAGE_BYTES} {pages}"
        assert line == expected, (model, rows)


def test_rows_that_fit() -> None:
    def fit(model: str) -> int:
        layers, hidden, heads, kv_heads, head, ffn = MODELS[model]
        sizes = SimpleNamespace(hidden=hidden, heads=heads, kv_heads=kv_heads, head=head, ffn=ffn)
        return rows_that_fit(sizes, layers)

    assert {model: fit(model) for model in MODELS} == {
        "Llama1B": 16,
        "Llama8B": 8,
        "Qwen600M": 16,
        "Qwen1700M": 16,
        "Qwen8B": 8,
        "Tiny": 16,
        "Odd": 16,
    }
    assert rows_that_fit(SimpleNamespace(hidden=32768, heads=64, kv_heads=8, head=128, ffn=65536), 80) == 0
