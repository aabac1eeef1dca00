"""Tests of Theorem 6.2 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.separation import SelfAttention, paths
from tests.claims.cells import ran
from tests.claims.changes import UNDECIDED, constant_along_paths, judge


def test_success_along_a_path_is_that_of_the_setting() -> None:
    cells = ran("separation/theorem-6.2/paths")
    result = next(cell.result for cell in cells if cell.parameters["path"] == "n^0.5")
    at = result["log10_n"].index(4.0)
    setting = paths.setting("ones", 10**4, result["g"][at], result["m"][at])
    assert (result["g"][at], result["m"][at]) == (100, 14)
    assert result["probability"][at] == setting.success_probability().success


def test_the_printed_counterexample_with_a_large_a1() -> None:
    """Definition D.1 and Theorem 6.2 allow the setting, and F_lin = 0 on D1 has probability 10^-5."""
    setting = SelfAttention(10**4, 102, 40, a0=0.01, a1=100, b=0.2, c=0.8, weights="ones")
    assert setting.broken_hypotheses() == ()
    assert setting.success_probability().lin_silent_on_d1 == pytest.approx(0.75**40, rel=1e-12)
    assert round(0.75**40, 9) == 1.0057e-5


def test_if_softmax_attention_fired_on_d0_along_narrow_paths_theorem_d_9_would_need_its_d() -> None:
    id = "separation/theorem-6.2"
    results = constant_along_paths(ran(id), lambda cell: cell.parameters["path"] == "n^0.03", exp_silent_on_d0=-0.1)
    assert judge(id, results) is UNDECIDED
