"""Packing weights that are no numbers."""

import ml_dtypes
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader
from safetensors.numpy import save_file

from kgen.weights import pack as pack_module
from kgen.weights.checkpoint import WeightsError
from kgen.weights.pack import pack_weights
from tests.weights.gguf_files import write_gguf

MATRIX = "model.layers.0.self_attn.q_proj.weight"
VECTOR = "model.norm.weight"


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("bad", [[np.nan], [np.inf, -np.inf], [-np.nan, np.inf, np.nan]])
@pytest.mark.parametrize("name", [MATRIX, VECTOR])
@pytest.mark.filterwarnings("error")
def test_values_that_are_not_numbers_are_counted_and_refused(
    project, tmp_path, monkeypatch, dtype, bad, name
):
    """They are spread over the tensor, which is read in chunks of a few rows."""
    monkeypatch.setattr(pack_module, "_CHUNK_ELEMENTS", 200)
    values = {key: v.astype(dtype) for key, v in project.random().items()}
    flat = values[name].reshape(-1)
    flat[np.linspace(flat.size // 3, flat.size - 1, len(bad)).astype(int)] = bad
    file = tmp_path / "model.safetensors"
    save_file(values, file)
    with pytest.raises(WeightsError) as error:
        pack_weights(project.path, file, tmp_path / "out")
    assert str(error.value) == (
        f"{file}: {name}: {len(bad)} of {flat.size} values are NaN or infinite, so the file is damaged"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("scale", [np.nan, np.inf])
@pytest.mark.filterwarnings("error")
def test_a_block_with_a_damaged_scale(project, tmp_path, scale):
    """The 32 values of a Q8_0 block share a scale; infinity times a zero of the block is no number either."""
    file = tmp_path / "m.gguf"
    write_gguf(file, project, project.random(), {MATRIX: Type.Q8_0}, arch="qwen2")
    entry = next(t for t in GGUFReader(file).tensors if t.name == "blk.0.attn_q.weight")
    with file.open("r+b") as raw:
        raw.seek(int(entry.data_offset) + 3 * 34)
        raw.write(np.float16(scale).tobytes() + bytes(8))
    with pytest.raises(WeightsError, match=f"{MATRIX}: 32 of 4096 values are NaN or infinite"):
        pack_weights(project.path, file, tmp_path / "out")
