"""`from: {hf_config: ...}` gives the graph of the spec written out, and passes over nothing in a config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kgen.diagnostics import Diagnostic, SpecError
from kgen.frontend.build import build_graph
from kgen.ir.attention import Attention, Rope
from kgen.ir.graph import Graph
from kgen.ir.linear import Linear
from kgen.spec.load import load_spec, parse_spec

HERE = Path(__file__).parent
SPECS = HERE.parents[1] / "specs/models"
CONFIGS = sorted((HERE / "configs").glob("*.json"))
HEAD = "kgen: 1\nkind: model\nname: {name}\nruntime: {{batch: 1..16, context: 1..{context}, kv_page: 64}}\n"


def spec_text(name: str = "t", context: int = 2048) -> str:
    return HEAD.format(name=name, context=context)


def inline(config: dict[str, Any]) -> str:
    return spec_text() + f"from:\n  hf_config: {json.dumps(config)}\n"


def config(name: str = "llama-3.2-1b", **changes: Any) -> dict[str, Any]:
    """A published config with fields changed; None takes one away."""
    data: dict[str, Any] = json.loads((HERE / f"configs/{name}.json").read_text())
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


def graph_of(data: dict[str, Any]) -> Graph:
    return build_graph(parse_spec(inline(data)))


def errors_of(data: dict[str, Any]) -> list[Diagnostic]:
    spec = parse_spec(inline(data))
    with pytest.raises(SpecError) as caught:
        build_graph(spec)
    return caught.value.diagnostics


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_a_config_means_the_spec_written_out(path: Path, tmp_path: Path) -> None:
    written_out = load_spec(SPECS / f"{path.stem}.yaml")
    (tmp_path / "config.json").write_text(path.read_text())
    spec = tmp_path / "spec.yaml"
    text = spec_text(written_out.name, written_out.runtime.context.last)
    spec.write_text(text + "from: {hf_config: config.json}\n")
    batch = written_out.runtime.batch.last
    assert build_graph(load_spec(spec), batch=batch) == build_graph(written_out)


def test_a_folder_means_the_config_in_it(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    spec = tmp_path / "spec.yaml"
    spec.write_text(spec_text() + "from: {hf_config: checkpoint}\n")
    with pytest.raises(SpecError) as caught:
        load_spec(spec)
    (error,) = caught.value.diagnostics
    file = tmp_path / "checkpoint" / "config.json"
    assert error.message == f"{file}: cannot read the file: no such file or directory"
    file.write_text(json.dumps(config()))
    assert build_graph(load_spec(spec)) == graph_of(config())


def test_every_shipped_family_has_a_config() -> None:
    assert {p.stem for p in CONFIGS} == {p.stem for p in SPECS.glob("*.yaml")} - {"tiny", "tiny-decoder"}


def test_newer_rope_parameters() -> None:
    scaling = config()["rope_scaling"]
    newer = config(rope_scaling=None, rope_theta=None, rope_parameters={**scaling, "rope_theta": 500000.0})
    assert graph_of(newer) == graph_of(config())
    plain = config(
        rope_scaling=None, rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 7.0}
    )
    assert attention(graph_of(plain)).rope == Rope(7.0)


def attention(graph: Graph) -> Attention:
    return next(op for op in graph.ops if isinstance(op, Attention))


def test_the_older_name_of_the_rope_type() -> None:
    scaling = dict(config()["rope_scaling"])
    scaling["type"] = scaling.pop("rope_type")
    assert graph_of(config(rope_scaling=scaling)) == graph_of(config())


def test_defaults_of_the_families() -> None:
    """What transformers' config classes use for fields that a file leaves out."""
    fields = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "vocab_size")
    base = {key: value for key, value in config().items() if key in fields}
    llama = graph_of({**base, "model_type": "llama"})
    op = attention(llama)
    assert (op.heads, op.kv_heads, op.head, op.rope) == (32, 32, 64, Rope(10000.0))
    assert "lm_head" in llama.by_name
    assert llama.ops[1].eps == 1e-6  # type: ignore[attr-defined]
    qwen3 = attention(graph_of({**base, "model_type": "qwen3"}))
    assert (qwen3.kv_heads, qwen3.head, qwen3.q_norm, qwen3.eps) == (32, 128, "layers.0.q_norm", 1e-6)
    qwen2 = attention(graph_of({**base, "model_type": "qwen2"}))
    assert (qwen2.kv_heads, qwen2.head, qwen2.q_norm) == (32, 64, None)


@pytest.mark.parametrize(
    ("name", "output"), [("llama-3.2-1b", True), ("qwen3-0.6b", True), ("qwen2.5-0.5b", False)]
)
def test_attention_bias(name: str, output: bool) -> None:
    graph = graph_of(config(name, attention_bias=True))
    linear = {op.name: op for op in graph.ops if isinstance(op, Linear)}
    assert linear["layers.3.wqkv"].bias == "layers.3.bqkv"
    assert graph.by_name["layers.3.bqkv"].sources == tuple(
        f"model.layers.3.self_attn.{part}_proj.bias" for part in "qkv"
    )
    assert linear["layers.3.wo"].bias == ("layers.3.bo" if output else None)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "model_type": ({"model_type": "lama"}, "model_type is the text 'lama' | llama, qwen2 or qwen3 | llama"),
    "hidden_act": ({"hidden_act": "gelu"}, "hidden_act is the text 'gelu' | silu"),
    "mlp_bias": ({"mlp_bias": True}, "mlp_bias is the boolean true | false"),
    "pretraining_tp": ({"pretraining_tp": 2}, "pretraining_tp is the number 2 | 1"),
    "sliding_window": ({"sliding_window": 4096}, "sliding_window is the number 4096 | null"),
    "use_sliding_window": (
        {"model_type": "qwen2", "use_sliding_window": True},
        "use_sliding_window is the boolean true | false",
    ),
    "layer_types": (
        {"layer_types": ["full_attention", "sliding_attention"]},
        "layer 1 is the text 'sliding_attention' | full_attention",
    ),
    "quantization_config": (
        {"quantization_config": {"bits": 4}},
        "quantization_config is not supported; if it changes nothing in the forward pass, remove it",
    ),
    "hidden_size": ({"hidden_size": 0}, "hidden_size is the number 0 | a whole number of at least 1"),
    "rms_norm_eps": (
        {"rms_norm_eps": "small"},
        "rms_norm_eps is the text 'small' | a positive number that fp32 can hold",
    ),
    "rope_type": (
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        "rope_scaling.rope_type is the text 'yarn' | default or llama3",
    ),
    "linear rope": (
        {"rope_scaling": {"type": "linear", "factor": 4.0}},
        "rope_scaling.type is the text 'linear' | default or llama3",
    ),
    "partial_rotary_factor": (
        {"rope_scaling": None, "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        "rope_parameters.partial_rotary_factor is not supported with the type 'default'",
    ),
    "both ropes": (
        {"rope_parameters": {"rope_theta": 1e4}},
        "rope_scaling is given together with rope_parameters | one of them",
    ),
    "tie_word_embeddings": (
        {"tie_word_embeddings": 1},
        "tie_word_embeddings is the number 1 | true or false",
    ),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_supported_is_named(changes: dict[str, Any], words: str) -> None:
    data = config(**changes)
    found = errors_of(data)
    assert [" | ".join((d.message, d.expected, d.hint)).rstrip(" |") for d in found] == [words]


def test_missing_fields_are_named_together() -> None:
    found = errors_of(config(hidden_size=None, vocab_size=None))
    assert [(d.message, d.expected) for d in found] == [
        ("the config has no hidden_size", "a whole number"),
        ("the config has no vocab_size", "a whole number"),
    ]


@pytest.mark.parametrize("field", ["hidden_size", "num_attention_heads"])
def test_a_size_that_is_text_is_one_error(field: str) -> None:
    (error,) = errors_of(config("smollm2-135m", **{field: "576"}, head_dim=None))
    assert (error.message, error.expected) == (f"{field} is the text '576'", "a whole number of at least 1")


def test_more_heads_than_columns() -> None:
    found = errors_of(config("smollm2-135m", hidden_size=8, head_dim=None))
    assert [d.message for d in found] == ["head_dim is the number 0"]


def test_errors_are_placed_in_the_config(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config(hidden_act="relu"), indent=1))
    (tmp_path / "spec.yaml").write_text(spec_text() + "from: {hf_config: config.json}\n")
    spec = load_spec(tmp_path / "spec.yaml")
    with pytest.raises(SpecError) as caught:
        build_graph(spec)
    (error,) = caught.value.diagnostics
    line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if "hidden_act" in text)
    assert (error.span.file, error.span.line, error.span.col, error.span.end_col) == (str(file), line, 17, 21)


def test_errors_of_an_inline_config_are_placed_in_the_spec() -> None:
    (error,) = errors_of({**config(), "hidden_act": "relu"})
    line = error.span.source
    assert (error.span.line, line[error.span.col - 1 : error.span.end_col - 1]) == (6, "relu")


def test_context_beyond_the_model() -> None:
    text = spec_text(context=8193) + f"from: {{hf_config: {json.dumps(config('smollm2-135m'))}}}\n"
    with pytest.raises(SpecError) as caught:
        build_graph(parse_spec(text))
    (error,) = caught.value.diagnostics
    assert (error.span.line, error.span.col, error.expected) == (4, 34, "at most 8192")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file or directory"),
        ('{"a": 1,}', "not JSON"),
        ("[1]", "a config is a JSON object"),
        ('{"a": 1, "a": 2}', "the key 'a' is given twice (first on line 1)"),
        ("", "not JSON"),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    (tmp_path / "spec.yaml").write_text(spec_text() + "from: {hf_config: config.json}\n")
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path / "spec.yaml")
    (error,) = caught.value.diagnostics
    assert message in error.message


def test_a_missing_config_is_an_error_of_the_spec(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(spec_text() + "from: {hf_config: none.json}\n")
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path / "spec.yaml")
    span = caught.value.diagnostics[0].span
    assert (span.file, span.line, span.col, span.end_col) == (str(tmp_path / "spec.yaml"), 5, 19, 28)


def test_a_config_indented_with_tabs(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config(), indent="\t"))
    (tmp_path / "spec.yaml").write_text(spec_text() + "from: {hf_config: config.json}\n")
    assert build_graph(load_spec(tmp_path / "spec.yaml")) == graph_of(config())
