import json
from typing import Any

from kgen.render.project import render_project


def test_packing_needs_nothing_but_model_json(hand_made: Any) -> None:
    model = json.loads(render_project(hand_made)["model.json"])
    assert (model["format"], model["name"], model["digest"]) == (1, "hand", "00ff" * 16)
    sizes = {"batch": 2, "context": 16, "kv_page": 8, "rows": 4, "workers": 4}
    assert model["runtime"] == sizes | {"worker": "auto", "pipelining": True, "attention": "auto"}
    assert model["dims"] == {"hidden": 8, "vocab": 10}
    assert (model["vocab"], model["weight_bytes"]) == (10, 2304)
    assert model["tensors"][1] == {
        "name": "layers.0.qkv.weight",
        "space": "weight",
        "dtype": "bf16",
        "shape": [24, 8],
        "stride": 32,
        "offset": 768,
        "sources": ["model.layers.0.qkv.weight"],
    }


def test_operators_name_their_operands(hand_made: Any) -> None:
    model = json.loads(render_project(hand_made)["model.json"])
    assert len(model["ops"]) == 7
    assert model["ops"][1] == {
        "name": "layers.0.qkv",
        "kind": "linear",
        "layer": -1,
        "constants": {"n": 24, "k": 8, "has_bias": False, "has_residual": False},
        "operands": {"x": "x", "weight": "layers.0.qkv.weight", "out": "qkv"},
    }
