"""The best tau, against every tau in turn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from separatrix.errors import ArgumentError
from separatrix.separation import CrossAttention, SelfAttention
from separatrix.separation.mechanisms import Mechanism, linear, order3, softmax
from separatrix.separation.sign_vectors import projected_by_class
from separatrix.separation.tokens import class_sizes
from separatrix.separation.tuned import tuned_separation

SETTINGS = [
    SelfAttention(9, 5, 3, a0="0.05", a1="1.2", b="0.2", c="0.8", weights="identity"),
    SelfAttention(7, 5, 4, a0="0.05", a1="1.2", b="0.2", c="0.8", weights="ones", strict=False),
    CrossAttention(8, 5, 3, a0="0.05", a1=3),
]


Values = Mapping[int, NDArray[np.float64]]


def separates(setting: SelfAttention | CrossAttention, M1: Values, M0: Values, tau: float, gamma: float) -> float:
    """The definition: P[every M_0(y_l) <= tau - gamma and some M_1(y_l) >= tau + gamma]."""
    sizes, m, total = class_sizes(setting), setting.m, 0.0
    for k1, on_d1 in M1.items():
        for k0, on_d0 in M0.items():
            quiet = on_d0 <= tau - gamma
            neither = quiet & (on_d1 < tau + gamma)
            total += sizes[k1] * sizes[k0] / setting.n**2 * (quiet.mean() ** m - neither.mean() ** m)
    return total


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("mechanism", [softmax(), softmax("0.25"), linear("identity"), linear("elu"), order3("twice")])
def test_no_tau_does_better(setting: SelfAttention | CrossAttention, mechanism: Mechanism) -> None:
    margins = (1e-6, 1e-2, 0.1)
    own = setting.threshold
    M1, M0 = (projected_by_class(setting, mechanism, which) for which in (1, 0))
    values = np.unique(np.concatenate([*M0.values()]))
    for margin, separation in zip(margins, tuned_separation(setting, mechanism, margins), strict=True):
        gamma = margin * own
        assert separation.margin == margin
        if separation.tau is None:
            assert separation.separates == 0
        else:
            assert separates(setting, M1, M0, separation.tau * own, gamma) == pytest.approx(
                separation.separates, abs=1e-12
            )
        grid = np.linspace(values.min() - 0.1, values.max() + 0.5, 60)
        # A slightly larger margin than requested, so that rounding at the edge cannot help the competitor.
        best = max(separates(setting, M1, M0, tau, gamma * 1.01) for tau in (*grid, *(values[::3] + 1.02 * gamma)))
        assert best <= separation.separates + 1e-12


def test_a_wider_margin_is_harder() -> None:
    margins = (1e-6, 1e-4, 1e-2, 0.1, 0.5)
    for setting in SETTINGS:
        rates = [separation.separates for separation in tuned_separation(setting, linear("taylor2"), margins)]
        assert rates == sorted(rates, reverse=True)
        assert rates[0] > 0


@pytest.mark.parametrize("margin", [0.0, -1.0, 1e-12, float("nan")])
def test_a_margin_must_be_resolved_by_float64(margin: float) -> None:
    with pytest.raises(ArgumentError, match="margins"):
        tuned_separation(SETTINGS[0], softmax(), (0.1, margin))
