"""Paths d(n), and the n from which on success along them holds."""

from __future__ import annotations

import pytest

from separatrix.errors import ArgumentError
from separatrix.separation import paths


def test_a_path_is_followed_to_its_end() -> None:
    result = {
        "log10_n": [1.0, 2.0, 3.0, 4.0],
        "probability": [1.0, 0.5, 0.99, 1.0],
        "success": [-9.0, -3.9, -5.0, -6.0],
    }
    assert paths.passes(result) == 3.0
    assert paths.passes(result, 0.999) == 4.0
    assert paths.rare_from(result, "success") == 3.0  # delta / n is 10^-5 there, and equality counts
    result["probability"][-1], result["success"][-1] = 0.9, -5.9
    assert paths.passes(result) is None
    assert paths.rare_from(result, "success") is None


def test_an_invalid_path_is_refused() -> None:
    with pytest.raises(ArgumentError, match="path"):
        paths.classes("sqrt n", 4)
