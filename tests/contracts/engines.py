"""Tests of exact attention run with each of its engines; a test module takes part by importing `engine`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from separatrix.attention.exact import kernels
from separatrix.native import native

ENGINES = ("kernels", "blocks")


@pytest.fixture(scope="module", autouse=True, params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the engine that computes what is tested."""
    if request.param == "kernels" and native().library is None:
        pytest.skip(f"The kernels do not run. {native().reason}")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "blocks":
            patch.setattr(kernels, "takes", lambda *given: False)
        yield request.param
