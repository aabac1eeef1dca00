"""Theorem 6.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import theorem_6_2
from separatrix.separation import paths
from tests.claims.separation.families import PathsContract, TheoremContract


class TestTheorem62(PathsContract, TheoremContract):
    module = theorem_6_2
    event = ("theorem-6.2", "success")
    paths = "theorem-6.2/paths"

    def test_success_along_a_path_is_that_of_the_setting(self) -> None:
        found = next(x for x in self.found("theorem-6.2/paths") if x.parameters["path"] == "n^0.5").result
        at = found["log10_n"].index(4.0)
        setting = paths.setting("ones", 10**4, found["g"][at], found["m"][at])
        assert (found["g"][at], found["m"][at]) == (100, 14)
        assert found["probability"][at] == setting.success_probability().success
