"""Packing GGUF: dequantization against the block formats' definitions, names, row order, metadata."""

import os

import ml_dtypes
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import quantize

from kgen.weights.checkpoint import WeightsError
from kgen.weights.gguf_names import hf_name
from kgen.weights.match import rope_factors
from kgen.weights.pack import pack_weights
from tests.weights.gguf_files import write_gguf

SETTINGS = {"head": 16, "rope_theta": 1e4, "rope_factor": 8.0, "rope_low_freq": 1.0, "rope_high_freq": 4.0}
SETTINGS["rope_original_context"] = 64


def block_values(raw: bytes, kind: Type) -> list[float]:
    """Elements of quantized blocks of 32, from the format's definition."""
    out = []
    size = {Type.Q8_0: 34, Type.Q4_0: 18, Type.Q4_1: 20}[kind]
    for at in range(0, len(raw), size):
        block = raw[at : at + size]
        scale = np.frombuffer(block[:2], np.float16)[0].astype(np.float32)
        if kind == Type.Q8_0:
            out += [scale * np.float32(q - 256 if q > 127 else q) for q in block[2:]]
            continue
        nibbles = [b & 15 for b in block[-16:]] + [b >> 4 for b in block[-16:]]
        if kind == Type.Q4_0:
            out += [scale * np.float32(q - 8) for q in nibbles]
        else:
            low = np.frombuffer(block[2:4], np.float16)[0].astype(np.float32)
            out += [scale * np.float32(q) + low for q in nibbles]
    return out


def after_quantization(value: np.ndarray, kind: Type) -> np.ndarray:
    if kind == Type.F16:
        return value.astype(np.float16).astype(np.float32)
    if kind == Type.BF16:
        return value.astype(ml_dtypes.bfloat16).astype(np.float32)
    return np.array(block_values(quantize(value, kind).tobytes(), kind), np.float32).reshape(value.shape)


@pytest.mark.parametrize("kind", [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1], ids=lambda k: k.name)
def test_types_and_row_order(project, tmp_path, kind):
    values = project.random()
    matrices = [name for name, value in values.items() if value.ndim == 2]
    file = write_gguf(tmp_path / "m.gguf", project, values, dict.fromkeys(matrices, kind))
    pack_weights(project.path, file, tmp_path / "out")
    expected = {n: after_quantization(v, kind) if n in matrices else v for n, v in values.items()}
    assert (tmp_path / "out").read_bytes()[4096:] == project.expected(expected)


@pytest.mark.parametrize("arch", ["llama", "qwen2"])
def test_biases(biased_project, tmp_path, arch):
    """llama interleaves the rows of q and k, biases too; qwen2 does not."""
    values = biased_project.random(3)
    file = write_gguf(tmp_path / "m.gguf", biased_project, values, {}, arch=arch)
    pack_weights(biased_project.path, tmp_path / "m.gguf", tmp_path / "out")
    assert file.exists()
    assert (tmp_path / "out").read_bytes()[4096:] == biased_project.expected(values)


def test_bf16_vectors(biased_project, tmp_path):
    values = biased_project.random(4)
    kinds = dict.fromkeys(values, Type.BF16)
    write_gguf(tmp_path / "m.gguf", biased_project, values, kinds)
    pack_weights(biased_project.path, tmp_path / "m.gguf", tmp_path / "out")
    assert (tmp_path / "out").read_bytes()[4096:] == biased_project.expected(values)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rope.freq_base", 500000.0, "rope_theta is 500000 in the file and 10000 in the project"),
        ("attention.layer_norm_rms_epsilon", 1e-6, "eps is 1e-06 in the file and 1e-05 in the project"),
        ("attention.head_count", 8, "q.weight has 64 rows, not 8 heads of 16"),
        ("rope.dimension_count", 8, "RoPE covers 8 of the 16 elements"),
    ],
)
def test_metadata_that_disagree(project, tmp_path, key, value, message):
    head = {"attention.key_length": 16, key: value}
    write_gguf(tmp_path / "m.gguf", project, project.random(), {}, **head)
    with pytest.raises(WeightsError, match=message):
        pack_weights(project.path, tmp_path / "m.gguf", tmp_path / "out")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("attention.head_count", "four", r"llama.attention.head_count is 'four'"),
        ("attention.head_count_kv", [2, 2], r"llama.attention.head_count_kv is \[2, 2\]"),
        ("embedding_length", 0, r"llama.embedding_length is 0"),
        ("rope.freq_base", "x", r"llama.rope.freq_base is 'x', not a number"),
        ("attention.layer_norm_rms_epsilon", [1.0], r"layer_norm_rms_epsilon is \[1.0\], not a number"),
    ],
)
def test_metadata_of_the_wrong_kind(project, tmp_path, key, value, message):
    write_gguf(tmp_path / "m.gguf", project, project.random(), {}, **{key: value})
    with pytest.raises(WeightsError, match=message):
        pack_weights(project.path, tmp_path / "m.gguf", tmp_path / "out")


def test_any_damage_of_the_header_is_a_weights_error_or_harmless(project, tmp_path):
    file = tmp_path / "m.gguf"
    write_gguf(file, project, project.random(), {})
    whole = file.read_bytes()
    draw = np.random.default_rng(1)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(draw.integers(1, 4)):
            damaged[draw.integers(1200)] = draw.choice([0, 1, 127, 128, 255])
        other = tmp_path / f"{hash(bytes(damaged))}.gguf"  # a reader is kept while its file seems the same
        other.write_bytes(damaged)
        try:
            pack_weights(project.path, other, tmp_path / "out")
        except WeightsError:
            assert not (tmp_path / "out").exists()
        (tmp_path / "out").unlink(missing_ok=True)
        other.unlink()


def test_a_file_that_is_replaced_is_read_again(project, tmp_path):
    file, out = tmp_path / "m.gguf", tmp_path / "out"
    packed = []
    for seed in range(2):
        values = project.random(seed)
        write_gguf(file, project, values, {})
        os.utime(file, (0, seed))
        pack_weights(project.path, file, out)
        packed.append(out.read_bytes()[4096:])
        assert packed[-1] == project.expected(values)
    assert packed[0] != packed[1]


def test_rope_factors_must_be_those_of_the_project(project, tmp_path):
    values = project.random()
    values["rope_freqs.weight"] = rope_factors(SETTINGS).astype(np.float32)
    write_gguf(tmp_path / "good.gguf", project, values, {})
    pack_weights(project.path, tmp_path / "good.gguf", tmp_path / "out")
    values["rope_freqs.weight"][-1] *= 2
    write_gguf(tmp_path / "bad.gguf", project, values, {})
    with pytest.raises(WeightsError, match=r"rope_freqs\.weight is not the RoPE scaling of the project"):
        pack_weights(project.path, tmp_path / "bad.gguf", tmp_path / "out")


def test_rope_factors_follow_llama_3():
    """Short waves are kept, long ones divided by the factor, those between interpolated."""
    factors = rope_factors(SETTINGS)
    for i, factor in enumerate(factors):
        wave = 2 * np.pi * 1e4 ** (2 * i / 16)
        if wave < 64 / 4:
            expected = 1.0
        elif wave > 64 / 1:
            expected = 8.0
        else:
            smooth = (64 / wave - 1) / (4 - 1)
            expected = 1 / ((1 - smooth) / 8 + smooth)
        assert factor == pytest.approx(expected)
    assert {1.0, 8.0} < set(factors.tolist())


def test_what_cannot_be_packed_is_refused(project, tmp_path):
    values = project.random()
    write_gguf(tmp_path / "k.gguf", project, values, {"model.embed_tokens.weight": Type.Q5_0})
    with pytest.raises(
        WeightsError, match="tensors of type Q5_0; F32, F16, BF16, Q8_0, Q4_0, Q4_1 can be packed"
    ):
        pack_weights(project.path, tmp_path / "k.gguf", tmp_path / "out")
    write_gguf(tmp_path / "g.gguf", project, values, {}, arch="gemma")
    with pytest.raises(WeightsError, match="architecture 'gemma'; expected one of llama, qwen2, qwen3"):
        pack_weights(project.path, tmp_path / "g.gguf", tmp_path / "out")
    write_gguf(tmp_path / "part.gguf", project, values, {}, parts=2)
    with pytest.raises(WeightsError, match="one part of a split GGUF"):
        pack_weights(project.path, tmp_path / "part.gguf", tmp_path / "out")
    (tmp_path / "no.gguf").write_bytes(b"GGML" + bytes(100))
    with pytest.raises(WeightsError, match="not a GGUF file"):
        pack_weights(project.path, tmp_path / "no.gguf", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("blk.27.attn_q_norm.weight", "model.layers.27.self_attn.q_norm.weight"),
        ("blk.0.attn_k_norm.weight", "model.layers.0.self_attn.k_norm.weight"),
        ("output.weight", "lm_head.weight"),
        ("blk.3.ffn_gate_inp.weight", "blk.3.ffn_gate_inp.weight"),
        ("attn_q.weight", "attn_q.weight"),
        ("blk.1.output_norm.weight", "blk.1.output_norm.weight"),
    ],
)
def test_names_outside_the_tiny_model(name, expected):
    """Names that are not known stay as they are, so that an error can show them."""
    assert hf_name(name) == expected
