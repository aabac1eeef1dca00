"""The lemmas and theorems of Sections D, E and F, whose cells follow paths d(n): results that change their verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from separatrix.claims import load
from separatrix.claims.ledger import CellResult, claims
from tests.claims.cells import ran
from tests.claims.changes import FAILS, UNDECIDED, constant_along_paths, every, judge

load("separation")
CLAIMS = {claim.id: claim for claim in claims("separation")}
ENTRIES = [id for id, claim in CLAIMS.items() if "entry_bounds" in claim.figures]
ROWS = [id for id, claim in CLAIMS.items() if "row_chances" in claim.figures]
SPECIAL = [f"separation/lemma-{place}" for place in ("d.4", "e.3", "f.4")]
"""Lemmas in which the special row often reaches its threshold."""
CENTRED = [f"separation/lemma-{place}" for place in ("d.8", "d.12", "d.16")]
"""Lemmas whose proof places the sum near +c."""
FIRES = [(f"separation/theorem-{place}", "exp_fires_on_d1") for place in ("d.5", "e.4", "f.5")]
"""Theorems that F_exp > 0 on D1, which needs enough sign vectors."""
SILENT = [
    (f"separation/theorem-{place}", event)
    for event, places in (
        ("exp_silent_on_d0", ("d.9", "f.9")),
        ("lin_silent_on_d1", ("d.13", "f.13")),
        ("lin_silent_on_d0", ("d.17", "f.17")),
    )
    for place in places
]
PATHS = [f"separation/theorem-{place}/paths" for place in ("6.2", "e.4", "f.5")]
BOUNDED = [f"separation/{place}" for place in ("lemma-d.12", "theorem-d.13", "theorem-6.2", "lemma-f.12")]
"""Places that require a_1 = O(1) without saying so."""
EXISTENCE = ["separation/theorem-1.1", "separation/theorem-1.2"]


def with_part(cell: CellResult, part: str, counts: list[object]) -> CellResult:
    """A cell with other counts for a part of its lemma: entries compared, violations, entry over bound."""
    return replace(cell, result={**cell.result, "right": {**cell.result["right"], part: counts}})


def first_part(cell: CellResult) -> str:
    return str(next(iter(cell.result["right"])))


def test_every_section_has_its_lemmas() -> None:
    assert (len(ENTRIES), len(ROWS)) == (18, 9)
    assert {CLAIMS[id].home for id in ENTRIES} == {CLAIMS[id].home for id in ROWS}
    assert {id for id in ENTRIES if CLAIMS[id].errata}


@pytest.mark.parametrize("id", ENTRIES)
def test_one_entry_against_a_lemma_fails_it(id: str) -> None:
    first, *rest = ran(id)
    part = first_part(first)
    compared, _, ratio = first.result["right"][part]
    assert judge(id, [with_part(first, part, [compared, 1, ratio]), *rest]) is FAILS


@pytest.mark.parametrize("id", [id for id in ENTRIES if CLAIMS[id].errata])
def test_an_erratum_that_is_not_shown_is_not_reported(id: str) -> None:
    slips = [[compared, 0] for compared, _ in ran(id)[0].result["slips"]]
    assert judge(id, every(ran(id), slips=slips)) is UNDECIDED


@pytest.mark.parametrize("id", ENTRIES)
def test_a_part_that_no_entry_is_about_is_undecided(id: str) -> None:
    part = first_part(ran(id)[0])
    assert judge(id, [with_part(cell, part, [0, 0, None]) for cell in ran(id)]) is UNDECIDED


@pytest.mark.parametrize("id", ROWS)
def test_a_row_that_often_reaches_its_threshold_is_not_rare(id: str) -> None:
    assert judge(id, constant_along_paths(ran(id), reaches=-0.01)) is FAILS


@pytest.mark.parametrize("id", SPECIAL)
def test_a_special_row_that_never_reaches_its_threshold_fails(id: str) -> None:
    results = constant_along_paths(ran(id), lambda cell: cell.parameters["row"] == "special", reaches=-1e6)
    assert judge(id, results) is FAILS


@pytest.mark.parametrize("id", CENTRED)
def test_if_the_sum_were_near_plus_c_the_erratum_would_not_be_shown(id: str) -> None:
    assert judge(id, constant_along_paths(ran(id), off_printed=-1e6)) is UNDECIDED


@pytest.mark.parametrize("id", BOUNDED)
def test_if_linear_attention_stayed_zero_with_a_growing_a1_the_erratum_would_not_be_shown(id: str) -> None:
    results = constant_along_paths(ran(id), lambda cell: str(cell.parameters.get("a")).startswith("n^"), reaches=-1e6)
    assert judge(id, results) is UNDECIDED


@pytest.mark.parametrize(("id", "event"), [*FIRES, *SILENT, ("separation/theorem-6.2", "success")])
def test_a_theorem_whose_probability_of_failure_stays_fails(id: str, event: str) -> None:
    assert judge(id, constant_along_paths(ran(id), **{event: -0.5})) is FAILS


@pytest.mark.parametrize(("id", "event"), FIRES)
def test_if_few_vectors_were_enough_the_erratum_would_not_be_shown(id: str, event: str) -> None:
    results = constant_along_paths(ran(id), lambda cell: cell.parameters["width"] == 1.0, **{event: -1000.0})
    assert judge(id, results) is UNDECIDED


@pytest.mark.parametrize(("path", "success"), [("n^0.5", 0.5), ("10", 1.0)])
@pytest.mark.parametrize("id", PATHS)
def test_paths_must_differ(id: str, path: str, success: float) -> None:
    results = constant_along_paths(ran(id), lambda cell: cell.parameters["path"] == path, probability=success)
    assert judge(id, results) is FAILS


@pytest.mark.parametrize("id", EXISTENCE)
def test_a_separation_that_never_succeeds_refutes_existence(id: str) -> None:
    assert judge(id, constant_along_paths(ran(id), success=-0.1)) is FAILS
