"""Finds the library and makes what the tests share: a random weight file, a model on it, the reference.

{NAME}_LIBRARY names the library (else build/cuda where there is a driver, else build/host);
{NAME}_TEST_MAX_MB is the largest weight file to make, in MB: tests that need a larger one are skipped;
{NAME}_TEST_WORKERS is the number of workers of the models, where a test asks for none (0: as many as are
fastest).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

if "tsan" in os.environ.get("LD_PRELOAD", ""):
    # NumPy's own threads are not instrumented, so that what they do would look like races.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

_TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(_TESTS.parent / "python"), str(_TESTS)]

from driver import Driver  # noqa: E402
from expected import Expected  # noqa: E402
from packed import read_weights, write_random  # noqa: E402
from project import MODEL  # noqa: E402
from reference import Reference  # noqa: E402

_VARIABLES = MODEL["name"].upper()
_DEFAULT_MAX_MB = "64"


@pytest.fixture(scope="session")
def spec() -> dict[str, Any]:
    """The contents of model.json."""
    return MODEL


@pytest.fixture(scope="session")
def binding() -> ModuleType:
    """The Python binding of this project."""
    return importlib.import_module(MODEL["name"])


@pytest.fixture(scope="session")
def library(binding: ModuleType) -> Any:
    """The library under test."""
    return binding.Library()


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed file of random weights."""
    limit = float(os.environ.get(f"{_VARIABLES}_TEST_MAX_MB", _DEFAULT_MAX_MB))
    megabytes = MODEL["weight_bytes"] / 1e6
    if megabytes > limit:
        pytest.skip(f"weights of {megabytes:.1f} MB exceed {_VARIABLES}_TEST_MAX_MB={limit:g}")
    path = tmp_path_factory.mktemp("weights") / "random.weights"
    write_random(MODEL, path)
    return path


@pytest.fixture(scope="session")
def workers() -> int:
    """Workers of a model whose test asks for no number of them."""
    return int(os.environ.get(f"{_VARIABLES}_TEST_WORKERS", "0"))


@pytest.fixture(scope="session")
def model(binding: ModuleType, library: Any, weights: Path, workers: int) -> Iterator[Any]:
    """A model with default options, shared by all tests that do not change it."""
    with binding.Model(weights, library=library, workers=workers) as model:
        yield model


@pytest.fixture
def make_model(
    binding: ModuleType, library: Any, weights: Path, workers: int
) -> Iterator[Callable[..., Any]]:
    """Makes models with other options, and closes them after the test."""
    made = []

    def make(**options: Any) -> Any:
        made.append(binding.Model(weights, library=library, **{"workers": workers} | options))
        return made[-1]

    yield make
    for model in made:
        model.close()


@pytest.fixture(scope="session")
def rounded(weights: Path) -> Reference:
    """The reference with bf16 rounding where the library stores bf16."""
    return Reference(MODEL, read_weights(MODEL, weights), rounded=True)


@pytest.fixture(scope="session")
def exact(weights: Path) -> Reference:
    """The reference without rounding."""
    return Reference(MODEL, read_weights(MODEL, weights), rounded=False)


@pytest.fixture(scope="session")
def alike(model: Any, workers: int) -> bool:
    """Whether the model rounds to bf16 at the places where the reference does.

    The cluster worker does not. It runs where no number of workers was asked for, and only on whole clusters
    of SMs, while the general worker then has all SMs. On a chip that is all whole clusters it would be taken
    for the general worker, from which more is expected.
    """
    return not model.info.cuda or workers != 0 or model.info.workers == Driver().multiprocessors()


@pytest.fixture(scope="session")
def expect(exact: Reference, rounded: Reference, alike: bool) -> Callable[..., Expected]:
    """What the references say of the rows of a sequence, from row `first` on."""

    def rows(tokens: list[int], first: int = 0) -> Expected:
        return Expected(*(reference.logits(tokens)[first:] for reference in (exact, rounded)), alike)

    return rows
