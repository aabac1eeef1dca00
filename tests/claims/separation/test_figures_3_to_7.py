"""Figure 3, Figure 4, Figure 5 and Figure 7: the recorded verdict, and what would change it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from separatrix.claims.separation import figures_3_to_7
from tests.claims.cells import ran
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract, claims_of


class TestFigures3To7(ClaimContract):
    module = figures_3_to_7


OURS = claims_of(figures_3_to_7)


@pytest.mark.parametrize("id", ["figure-3", "figure-4", "figure-5", "figure-7"])
def test_a_simulation_that_does_not_fit_the_exact_probability_is_found(id: str) -> None:
    found = ran(OURS[id].id)
    hits = [0 if x is not None else None for x in found[0].result["hits"]]
    first = replace(found[0], result={**found[0].result, "hits": hits})
    assert OURS[id].judged([first, *found[1:]]).verdict is FAILS


@pytest.mark.parametrize("id", ["figure-4", "figure-5", "figure-7"])
def test_settings_within_all_hypotheses_would_show_no_slip(id: str) -> None:
    found = [replace(x, result={**x.result, "broken": [[] for _ in x.result["broken"]]}) for x in ran(OURS[id].id)]
    assert OURS[id].judged(found).verdict is UNDECIDED


def test_the_chance_of_a_count_is_the_binomial_tail() -> None:
    assert figures_3_to_7.chance(2, 4, 0.5, 0.5) == 1.0
    assert figures_3_to_7.chance(1, 4, 0.5, 0.5) == pytest.approx(5 / 16, rel=1e-12)
    assert figures_3_to_7.chance(4, 4, 0.2, 0.5) == pytest.approx(1 / 16, rel=1e-12)
    assert figures_3_to_7.chance(1, 4, 0.5, 0.9) == pytest.approx(5 / 16, rel=1e-12)
    assert figures_3_to_7.chance(1, 4, 0.0, 0.0) == 0.0
    assert figures_3_to_7.chance(3, 4, 1.0, 1.0) == 0.0
    assert figures_3_to_7.chance(0, 4, 0.0, 0.0) == 1.0
