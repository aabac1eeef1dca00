"""The kernels for their tests: each architecture in turn, or a skip with the reason why it cannot run here."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from separatrix.native import native, runnable

ARCHITECTURES = ("avx512", "avx2", "lowered", "baseline", "neon")
HERE = [] if native().library is None else runnable(native().library)
"""The architectures whose kernels this processor supports."""


@pytest.fixture
def library() -> ctypes.CDLL:
    """The shared library of the kernels that this process has loaded."""
    kernels = native()
    if kernels.library is None:
        pytest.skip(f"There are no kernels to test. {kernels.reason}")
    return kernels.library


@pytest.fixture(params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest, library: ctypes.CDLL) -> Iterator[str]:
    """The name of an architecture whose kernels are used until the end of the test."""
    before = library.separatrix_chosen()
    if library.separatrix_choose(request.param.encode()) != 0:
        pytest.skip(f"This library has no kernels for {request.param}, or this processor does not run them.")
    yield request.param
    assert library.separatrix_choose(before) == 0
