"""The law of the times with stochastic encodings: its verdict, its mutants, and gradient descent step by step."""

from __future__ import annotations

import math

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.selection.laws import stochastic_time_law
from separatrix.studies.selection import times
from tests.studies.cells import changed, claims_of, given, run_cells

OURS = claims_of(times)
LAW, REGIME = "theorem-3.3/time-law", "theorem-3.3/time-at-d-e-k-log-t"


def ran(id: str = LAW) -> tuple[CellResult, ...]:
    return run_cells(OURS[id])


@pytest.mark.parametrize(
    ("where", "to"),
    [
        ({"T": 9}, {"identity": 1e-6}),
        ({"T": 9}, {"above": 1e-6}),
        ({"T": 9}, {"below": 1e-6}),
        ({"T": 400, "width": 2**16}, {"times": [51.0, 280.0]}),
        ({"T": 512, "d": 8, "width": 2**20}, {"times": [60.0, 290.0]}),
    ],
)
def test_another_result_is_another_verdict(where: dict[str, int], to: dict[str, object]) -> None:
    assert OURS[LAW].check(changed(ran(), given(**where), **to)).verdict is Verdict.FAILS_AS_PRINTED


@pytest.mark.parametrize(("K", "ratios"), [(60, [1.05, 1.08]), (60, [1.02, 1.05]), (300, [1.01, 1.02])])
def test_another_factor_in_the_regime_is_another_verdict(K: int, ratios: list[float]) -> None:
    assert OURS[REGIME].check(changed(ran(REGIME), given(K=K), ratios=ratios)).verdict is Verdict.FAILS_AS_PRINTED


def test_the_law_is_the_limit_of_counted_steps() -> None:
    """Gradient descent of (alpha, C) with orthogonal encodings: wider ones are closer to the law."""
    T, q, d, epsilon, eta = 24, 2, 2, 5e-3, 0.5
    apart = []
    for width in (60, 240, 960):
        alpha = C = 0.0
        steps = 0
        loss = math.inf
        while loss > epsilon:
            s = 1 / (q + (T - q) * math.exp(-C))
            mean = alpha * s
            loss = d / 2 * (q * (1 / q - mean) ** 2 + (T - q) * (alpha * (1 - q * s) / (T - q)) ** 2)
            gain = eta * d / width * alpha * s * (1 - q * s) * (1 - q * alpha * (T * s - 1) / (T - q))
            alpha += eta * (s - alpha * (q * s**2 + (1 - q * s) ** 2 / (T - q)))
            C += gain
            steps += 1
        apart.append(abs(steps / stochastic_time_law(T, q, d, width, eta, epsilon) - 1))
    assert apart[2] < apart[1] / 3 < apart[0] / 9
    assert apart[2] < 0.01
