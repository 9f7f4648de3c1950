"""A project of a few lines that has the layout of a generated one."""

import json
from pathlib import Path

import pytest

CMAKE = """\
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
add_library(small SHARED small.cpp)
"""
PRESETS = {
    "version": 6,
    "configurePresets": [
        {
            "name": "base",
            "hidden": True,
            "binaryDir": "${sourceDir}/build/${presetName}",
        },
        {"name": "host", "inherits": "base"},
        {"name": "cuda", "inherits": "base"},
    ],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(CMAKE)
    (folder / "CMakePresets.json").write_text(json.dumps(PRESETS))
    (folder / "model.json").write_text("{}")
    (folder / "small.cpp").write_text('extern "C" int answer() { return 42; }\n')
    return folder
