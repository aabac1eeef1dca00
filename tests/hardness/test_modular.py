"""Arithmetic modulo a prime."""

from __future__ import annotations

import numpy as np

from separatrix.hardness.modular import rank_modulo


def test_rank_modulo_a_prime() -> None:
    rng = np.random.default_rng(0)
    for r in (0, 1, 7, 20):
        left, right = rng.integers(0, 1000, (20, r)), rng.integers(0, 1000, (r, 30))
        assert rank_modulo(left @ right) == r
