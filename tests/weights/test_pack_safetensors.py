"""Packing safetensors: values, rounding, padding, shards, and every way a file can be wrong."""

import hashlib
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from kgen.weights import pack as pack_module
from kgen.weights.checkpoint import WeightsError
from kgen.weights.layout import check_packed, read_header, read_layout
from kgen.weights.pack import pack_weights

Q = "model.layers.0.self_attn.q_proj.weight"


def packed(project, weights: Path, out: Path) -> bytes:
    pack_weights(project.path, weights, out)
    return out.read_bytes()


def test_values_header_and_zero_padding(padded_project, tmp_path):
    values = padded_project.random()
    save_file(values, tmp_path / "model.safetensors")
    raw = packed(padded_project, tmp_path, tmp_path / "out.weights")

    assert raw[:8] == b"KGENWTS1"
    assert int.from_bytes(raw[8:12], "little") == 4096
    assert int.from_bytes(raw[12:16], "little") == 0
    assert int.from_bytes(raw[16:24], "little") == padded_project.weight_bytes
    assert raw[24:56].hex() == "0123456789abcdef" * 4
    assert raw[56:120] == b"tiny_by_hand".ljust(64, b"\0")
    assert raw[120:4096] == bytes(4096 - 120)
    assert raw[4096:] == padded_project.expected(values)


def test_rounds_to_nearest_even(project, tmp_path):
    values = project.random()
    one, ulp = 0x3F80_0000, 0x1_0000
    bits = [
        one + 0x7FFF,
        one + 0x8000,
        one + 0x8001,
        one + ulp + 0x8000,
        one + ulp + 0x7FFF,
        0x7F7F_FFFF,
        0x8000_0001,
    ]
    expected = [0x3F80, 0x3F80, 0x3F81, 0x3F82, 0x3F81, 0x7F80, 0x8000]
    values["model.embed_tokens.weight"][0, : len(bits)] = np.array(bits, np.uint32).view(np.float32)
    save_file(values, tmp_path / "model.safetensors")
    raw = packed(project, tmp_path, tmp_path / "out")
    assert np.frombuffer(raw, "<u2", len(bits), 4096).tolist() == expected
    assert raw[4096:] == project.expected(values)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_types(project, tmp_path, dtype):
    values = {name: v.astype(dtype) for name, v in project.random().items()}
    save_file(values, tmp_path / "x.safetensors")
    raw = packed(project, tmp_path / "x.safetensors", tmp_path / "out")
    assert raw[4096:] == project.expected({name: v.astype(np.float32) for name, v in values.items()})


def test_small_chunks_give_the_same_file(padded_project, tmp_path, monkeypatch):
    save_file(padded_project.random(), tmp_path / "model.safetensors")
    whole = packed(padded_project, tmp_path, tmp_path / "out")
    monkeypatch.setattr(pack_module, "_CHUNK_ELEMENTS", 200)
    assert packed(padded_project, tmp_path, tmp_path / "out2") == whole


def save_shards(directory: Path, values: dict[str, np.ndarray]) -> Path:
    names = sorted(values)
    parts = {"a-00001.safetensors": names[:5], "a-00002.safetensors": names[5:]}
    for file, members in parts.items():
        save_file({n: values[n] for n in members}, directory / file)
    index = directory / "model.safetensors.index.json"
    weight_map = {n: file for file, members in parts.items() for n in members}
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


@pytest.mark.parametrize("by_directory", [True, False])
def test_sharded(project, tmp_path, by_directory):
    values = project.random()
    index = save_shards(tmp_path, values)
    raw = packed(project, tmp_path if by_directory else index, tmp_path / "out")
    assert raw[4096:] == project.expected(values)


def test_shards_that_are_missing_are_named(project, tmp_path):
    index = save_shards(tmp_path, project.random())
    (tmp_path / "a-00002.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"shards are missing: a-00002\.safetensors"):
        pack_weights(project.path, index, tmp_path / "out")


@pytest.mark.parametrize(
    "shard", ["../outside.safetensors", "/etc/passwd", "sub/a.safetensors", "", ".", 3, None]
)
def test_an_index_names_files_beside_it(project, tmp_path, shard):
    values = project.random()
    save_file(values, tmp_path / "outside.safetensors")
    (tmp_path / "dir").mkdir()
    index = tmp_path / "dir" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(values, shard)}))
    with pytest.raises(WeightsError, match=r"shards are files beside their index|not a safetensors index"):
        pack_weights(project.path, index, tmp_path / "out")


def test_other_files_are_not_overwritten(project, tmp_path):
    file = tmp_path / "model.safetensors"
    save_file(project.random(), file)
    before = file.read_bytes()
    with pytest.raises(WeightsError, match="exists and is not a packed weight file"):
        pack_weights(project.path, file, file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(digest="zz"),
        lambda m: m.update(digest="ab"),
        lambda m: m.update(name=3),
        lambda m: m.update(weight_bytes=-1),
        lambda m: m.update(weight_bytes=2**70),
        lambda m: m["tensors"][0].update(shape=[]),
        lambda m: m["tensors"][0].update(stride=1),
        lambda m: m["tensors"][0].update(offset=-256),
        lambda m: m["tensors"][0].update(offset=1 << 40),
    ],
)
def test_a_damaged_model_json(project, tmp_path, change):
    save_file(project.random(), tmp_path / "model.safetensors")
    model = json.loads((project.path / "model.json").read_text())
    change(model)
    (project.path / "model.json").write_text(json.dumps(model))
    with pytest.raises(WeightsError, match=r"not the model\.json of a generated project"):
        pack_weights(project.path, tmp_path, tmp_path / "out")


def test_every_tensor_that_does_not_fit_is_named_at_once(project, tmp_path):
    values = project.random()
    values["model.layers.0.self_attn.q_proj.weigth"] = values.pop(Q)
    values["model.layers.0.mlp.up_proj.weight"] = np.zeros((96, 63), np.float32)
    values["visual.patch"] = np.zeros((3, 4), np.float32)
    del values["model.norm.weight"]
    save_file(values, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError) as error:
        pack_weights(project.path, tmp_path, tmp_path / "out")
    lines = [line.strip() for line in str(error.value).splitlines()]
    assert lines[1:] == [
        f"missing: {Q} (nearest: model.layers.0.self_attn.q_proj.weigth)",
        "missing: model.norm.weight",
        f"extra: model.layers.0.self_attn.q_proj.weigth [64, 64] (nearest: {Q})",
        "extra: visual.patch [3, 4]",
        "misshapen: model.layers.0.mlp.up_proj.weight [96, 63]; w5 takes [96, 64]",
    ]
    assert not (tmp_path / "out").exists()


def test_a_stack_of_the_wrong_height_lists_its_parts(project, tmp_path):
    values = project.random()
    values[Q] = np.zeros((48, 64), np.float32)
    save_file(values, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"q_proj.weight \[48, 64\] \+ .*k_proj.*w8 takes \[128, 64\]"):
        pack_weights(project.path, tmp_path, tmp_path / "out")


def test_harmless_extras_are_left_out(project, tmp_path):
    values = project.random()
    expected = project.expected(values)
    values["lm_head.weight"] = values["model.embed_tokens.weight"].copy()
    values["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(8, np.float32)
    save_file(values, tmp_path / "model.safetensors")
    report = pack_weights(project.path, tmp_path, tmp_path / "out")
    assert sorted(report.ignored) == ["lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"]
    assert report.bytes == 4096 + project.weight_bytes
    assert (tmp_path / "out").read_bytes()[4096:] == expected


def test_an_untied_head_is_not_left_out(project, tmp_path):
    values = project.random()
    values["lm_head.weight"] = values["model.embed_tokens.weight"].copy()
    values["lm_head.weight"][-1, -1] += 1
    save_file(values, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"extra: lm_head.weight \[50, 64\]"):
        pack_weights(project.path, tmp_path, tmp_path / "out")


def test_a_failed_pack_leaves_the_old_file(project, tmp_path, monkeypatch):
    save_file(project.random(), tmp_path / "model.safetensors")
    out = tmp_path / "deep" / "out"
    before = packed(project, tmp_path, out)

    def full_disk(done, total):
        raise OSError(28, "No space left on device")

    with pytest.raises(WeightsError, match=r"out: cannot be written: No space left"):
        pack_weights(project.path, tmp_path, out, progress=full_disk)
    assert out.read_bytes() == before
    assert [p.name for p in out.parent.iterdir()] == ["out"]


def test_progress_ends_with_every_byte_written(project, tmp_path):
    save_file(project.random(), tmp_path / "model.safetensors")
    seen = []
    pack_weights(
        project.path, tmp_path, tmp_path / "out", progress=lambda done, total: seen.append((done, total))
    )
    assert seen == sorted(seen)
    data = sum(t["stride"] * 2 * (t["shape"][0] if len(t["shape"]) > 1 else 1) for t in project.tensors)
    assert seen[-1] == (data, project.weight_bytes)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:-1], "truncated"),
        (lambda raw: raw[:5], "header too small"),
        (lambda raw: b"\xff" * 8 + raw[8:], "not a safetensors file"),
        (lambda raw: raw[:8] + b"!" + raw[9:], "invalid JSON in header"),
    ],
)
def test_damaged_files(project, tmp_path, damage, message):
    file = tmp_path / "model.safetensors"
    save_file(project.random(), file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(WeightsError, match=message):
        pack_weights(project.path, file, tmp_path / "out")


def test_a_dtype_that_cannot_be_packed_is_named(project, tmp_path):
    values = project.random()
    values[Q] = np.zeros((64, 64), np.int8)
    save_file(values, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"q_proj.weight has dtype I8"):
        pack_weights(project.path, tmp_path, tmp_path / "out")


@pytest.mark.parametrize("name", ["absent", "notes.txt", "empty"])
def test_paths_that_hold_no_weights(project, tmp_path, name):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeightsError, match=name):
        pack_weights(project.path, tmp_path / name, tmp_path / "out")


def test_shards_without_an_index_are_merged(project, tmp_path):
    values = project.random()
    save_shards(tmp_path, values).unlink()
    assert packed(project, tmp_path, tmp_path / "out")[4096:] == project.expected(values)


def test_a_tensor_in_two_shards_is_refused(project, tmp_path):
    values = project.random()
    save_shards(tmp_path, values).unlink()
    save_file({Q: values[Q]}, tmp_path / "b.safetensors")
    with pytest.raises(WeightsError) as error:
        pack_weights(project.path, tmp_path, tmp_path / "out")
    twice = f"{Q} (in a-00002.safetensors and b.safetensors)"
    assert str(error.value) == f"{tmp_path}: tensors that are there twice: {twice}"


def test_a_directory_with_files_of_two_kinds_is_refused(project, tmp_path):
    save_file(project.random(), tmp_path / "a.safetensors")
    (tmp_path / "b.gguf").write_bytes(b"GGUF")
    with pytest.raises(WeightsError, match=r"several weight files: a.safetensors, b.gguf"):
        pack_weights(project.path, tmp_path, tmp_path / "out")


def test_a_directory_that_is_no_project_is_refused(tmp_path):
    save_file({"a": np.zeros(1, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match="is not a generated project; `kgen generate SPEC"):
        pack_weights(tmp_path, tmp_path, tmp_path / "out")


def test_the_project_of_a_kernel_is_refused(tmp_path):
    (tmp_path / "kernel.json").write_text('{"name": "small"}')
    with pytest.raises(WeightsError, match="is the project of a kernel, and this is for models"):
        pack_weights(tmp_path, tmp_path, tmp_path / "out")


def test_header_is_checked_before_use(project, tmp_path):
    save_file(project.random(), tmp_path / "model.safetensors")
    out = tmp_path / "out"
    raw = packed(project, tmp_path, out)
    layout = read_layout(project.path)
    check_packed(out, layout)
    assert (read_header(out).name, read_header(out).data_bytes) == ("tiny_by_hand", project.weight_bytes)

    digest = hashlib.sha256(b"another").digest()
    out.write_bytes(raw[:24] + digest + raw[56:])
    with pytest.raises(WeightsError, match=f"packed for another plan .*{digest.hex()[:12]}"):
        check_packed(out, layout)
    out.write_bytes(raw[:-1])
    with pytest.raises(WeightsError, match="damaged"):
        check_packed(out, layout)
    out.write_bytes(b"GGUF" + raw[4:])
    with pytest.raises(WeightsError, match="not a packed weight file"):
        check_packed(out, layout)
