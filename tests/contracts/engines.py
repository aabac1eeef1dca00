"""A fixture `engine` that runs tests of exact attention with each of its engines; a test module imports it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from separatrix.attention.exact import native as native_backend
from separatrix.native import native

ENGINES = ("native", "torch")


@pytest.fixture(scope="module", autouse=True, params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the engine under test."""
    if request.param == "native" and native().library is None:
        pytest.skip(f"The kernels do not run. {native().reason}")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "torch":
            patch.setattr(native_backend, "has_kernels", lambda sets: False)
        yield request.param
