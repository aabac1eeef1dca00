"""Theorem 6.2: what its experiments and checks must see, beside the tests of all claims."""

from __future__ import annotations

from separatrix.separation import paths
from tests.claims.cells import ran


def test_success_along_a_path_is_that_of_the_setting() -> None:
    cells = ran("separation/theorem-6.2/paths")
    result = next(cell.result for cell in cells if cell.parameters["path"] == "n^0.5")
    at = result["log10_n"].index(4.0)
    setting = paths.setting("ones", 10**4, result["g"][at], result["m"][at])
    assert (result["g"][at], result["m"][at]) == (100, 14)
    assert result["probability"][at] == setting.success_probability().success
