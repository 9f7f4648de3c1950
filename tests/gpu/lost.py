"""Something that a decode kernel waits for never comes: a report, everyone leaves, the model works again.

Usage: lost.py patch PROJECT, then build it, then lost.py check PROJECT LIBRARY.
`patch` puts losses into the sources of a generated project: in decode kernels each at a position of its own
of the first row, in the kernel that reads prompts at a number of rows of its own.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from binding import load_description, load_model, write_random_weights

TIMEOUT_MS = 200
STEPS_BEFORE = 2  # of a call, before the one in which something is lost
REPORT = re.compile(
    rf"TIMEOUT: rank 0 worker \d+ waited {TIMEOUT_MS} ms in step \d+ for event \d+ "
    r"\(task \d+, operator '(.+)'\): expected its counter at (\d+) or more, saw (\d+)"
)
DECODE = "block.board().position[0] == {position} && block.number() == {block}"
PREFILL = "pass().rows == {position} && blockIdx.x == {block}"


@dataclass(frozen=True)
class Loss:
    """`old` in the file, once, which becomes `new`; there {at} says whether to lose something now."""

    what: str
    file: str
    old: str
    new: str
    block: int
    position: int  # or rows
    at: str = DECODE
    batches: tuple[int, ...] = (1, 3)  # that it happens in


LOSSES = (
    Loss(
        "a word of the partial sums",
        "streams.hpp",
        "        pk::store_relaxed(place, ",
        "        if (!({at} && block.warp() == 1 && lane == 4)) pk::store_relaxed(place, ",
        9,
        40,
    ),
    Loss(
        "a piece of the residual stream",
        "gather.hpp",
        "        pk::ptx::store_relaxed_words(shared + ",
        "        if (!({at})) pk::ptx::store_relaxed_words(shared + ",
        9,
        64,
        batches=(3,),  # of a batch of one each block adds up its own
    ),
    Loss(
        "a store to a member of the cluster",
        "streams.hpp",
        "        if (rank < members) block.send_to(rank, e, offset, value);",
        "        if (rank < members && !({at} && e == Exchange::qkv && row == 0 && rank == 2))\n"
        "            block.send_to(rank, e, offset, value);",
        3,
        56,
    ),
    # Of a layer whose keys the two warps of the loader have begun to load, more than the ring holds.
    Loss(
        "a store to a member while keys are loaded",
        "streams.hpp",
        "            block.send_to(rank, e, offset, value);",
        "            if (!({at} && e == Exchange::qkv && row == 0 && rank == 2 &&\n"
        "                  block.op == op_of<typename B::D>(1, LayerOp::qkv)))\n"
        "                block.send_to(rank, e, offset, value);",
        3,
        400,
        batches=(3,),
    ),
    Loss(
        "a slice of the activations",
        "gather.hpp",
        "    block.copy_to(block.warp(), Exchange::hidden, L::hidden + ",
        "    if (!({at})) block.copy_to(block.warp(), Exchange::hidden, L::hidden + ",
        6,
        48,
        batches=(3,),  # of a batch of one each warp sends its own piece
    ),
    Loss(
        "that a block has done the step",
        "finish.hpp",
        "    if (block.thread() == 0) pk::store_release(&block.setup.done[",
        "    if (block.thread() == 0 && !({at})) pk::store_release(&block.setup.done[",
        5,
        72,
    ),
    Loss(
        "that a block has come to a meeting",
        "prefill/crew.hpp",
        "            pk::add_acq_rel(buffers.arrived, 1u);",
        "            if (!({at} && meetings_ == 4)) pk::add_acq_rel(buffers.arrived, 1u);",
        5,
        93,
        at=PREFILL,
        batches=(1,),
    ),
)


def patch(project: Path) -> None:
    """Put the losses into the project's sources."""
    for loss in LOSSES:
        path = project / "include" / "mpk" / "cluster" / loss.file
        text = path.read_text()
        if text.count(loss.old) != 1:
            raise SystemExit(f"{path}: {loss.what}: not there once: {loss.old!r}")
        at = loss.at.format(position=loss.position, block=loss.block)
        path.write_text(text.replace(loss.old, loss.new.replace("{at}", at)))


def check(project: Path, library: Path) -> None:
    """Lose each of them, and look at what is said and whether the next call is right."""
    description = load_description(project)
    names = [op["name"] for op in description["ops"]]
    random = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.kgen"
        write_random_weights(project, weights, seed=6)
        with load_model(project, library, weights, timeout_ms=TIMEOUT_MS) as model:
            for loss in LOSSES:
                for batch in loss.batches:
                    # The last token of a prompt is not read ahead.
                    length = loss.position + (1 if loss.at == PREFILL else -STEPS_BEFORE)
                    prompts = random.integers(0, description["vocab"], (batch, length)).tolist()
                    spared = [p[1:] for p in prompts] if loss.at == PREFILL else prompts
                    before = tokens(model, spared)
                    said = complaint(model, prompts)
                    print(f"{loss.what}, batch {batch}: {said}", flush=True)
                    found = REPORT.search(said)
                    if not found or found[1] not in names or int(found[2]) != int(found[3]) + 1:
                        raise SystemExit("the report does not say who waited for what")
                    if tokens(model, spared) != before:
                        raise SystemExit("the call after a timeout gave other tokens")


def tokens(model: Any, prompts: list[list[int]]) -> list[list[int]]:
    """Of a call that ends before anything is lost."""
    return [result.tokens.tolist() for result in model.generate(prompts, max_new_tokens=STEPS_BEFORE)]


def complaint(model: Any, prompts: list[list[int]]) -> str:
    """What a call says that goes on."""
    try:
        model.generate(prompts, max_new_tokens=STEPS_BEFORE + 4)
    except RuntimeError as error:  # a ModelError
        return str(error)
    raise SystemExit("something was lost, and nobody noticed")


if __name__ == "__main__":
    if sys.argv[1] == "patch":
        patch(Path(sys.argv[2]))
    else:
        check(Path(sys.argv[2]), Path(sys.argv[3]))
