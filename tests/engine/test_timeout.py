"""A task that never ends its work becomes a report that names everything, and the model can be used again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kgen.toolchain.build import build_project

from .conftest import load_module

VARIABLE = "KGEN_TEST_HANG"

# A task of the operator whose index is in the environment waits until another worker has given up.
HANGING_PROGRAM = """
struct Program {
    static constexpr std::uint32_t scratch_bytes = RealProgram::scratch_bytes;
    static bool active(const mpk::Machine& machine, const mpk::Task& task, std::uint16_t variant) {
        return RealProgram::active(machine, task, variant);
    }
    static void run(mpk::Context& context) {
        const char* hangs = std::getenv("KGEN_TEST_HANG");
        if (hangs != nullptr && std::atoi(hangs) == context.task.op && context.task.begin == 0) {
            while (!mpk::failed(context.machine)) std::this_thread::yield();
            return;
        }
        RealProgram::run(context);
    }
};

}  // namespace generated::tiny
"""


def test_timeout(
    variant: Callable[[str, str, str], Path], weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = variant("src/program.hpp", "struct Program {", "struct RealProgram {")
    program = project / "src" / "program.hpp"
    text = program.read_text().replace("#pragma once", "#pragma once\n#include <cstdlib>\n#include <thread>")
    end = "}  // namespace generated::tiny\n"
    assert text.endswith(end)
    text = text.removesuffix(end) + HANGING_PROGRAM
    program.write_text(text.replace('#include "pk', '#include "mpk/watchdog.hpp"\n#include "pk', 1))
    library = build_project(project, "host") / "libtiny.so"

    ops = [op["name"] for op in json.loads((project / "model.json").read_text())["ops"]]
    hanging = ops.index("layers.1.wdown")
    binding = load_module(project / "python" / "tiny.py")
    prompt = [[3, 1, 4]]
    with binding.Model(weights, library=library, workers=2, timeout_ms=100, kv_tokens=16) as model:
        (before,) = model.generate(prompt, max_new_tokens=4)
        monkeypatch.setenv(VARIABLE, str(hanging))
        model.start(prompt, max_new_tokens=4)
        for _ in range(2):
            with pytest.raises(binding.ModelError) as error:
                model.wait()
            assert error.value.status == binding.Status.TIMEOUT
            found = re.fullmatch(
                r"rank 0 worker [01] waited 100 ms in step 0 for event (\d+) \(task \d+, operator '(.+)'\): "
                r"expected its counter at (\d+) or more, saw (\d+)",
                error.value.sentence,
            )
            assert found, error.value.sentence
            assert ops.index(found[2]) > hanging
            assert int(found[4]) < int(found[3])
        assert len(model.tokens(0)[0]) == 0
        with pytest.raises(binding.ModelError, match="KV cache"):
            model.start(prompt, max_new_tokens=60)
        with pytest.raises(binding.ModelError, match="waited 100 ms"):
            model.wait()  # what is refused changes nothing
        assert os.environ.pop(VARIABLE) == str(hanging)
        (after,) = model.generate(prompt, max_new_tokens=4)
        assert after.tokens.tolist() == before.tokens.tolist()
