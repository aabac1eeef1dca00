"""The claims about Deng, Song, Yuan and Zhou's paper: their verdicts, and that each check can come out otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from separatrix.claims import ledger, load
from separatrix.claims.ledger import Found, Verdict
from separatrix.claims.separation import figures, paths
from separatrix.claims.verdicts import expected
from separatrix.errors import ArgumentError
from separatrix.lab import results
from separatrix.lab.registry import named

load("separation")
OURS = {name: one for name, one in ledger._REGISTRY.items() if one.paper == "separation"}
QUICK = sorted(id for id, one in OURS.items() if one.profile == "quick")
FAILS, HOLDS, UNDECIDED = Verdict.FAILS_AS_PRINTED, Verdict.HOLDS, Verdict.UNDECIDED


@cache
def _result(experiment: str, seed: int, parameters: str, key: str) -> Mapping[str, Any]:
    text, files = results.encode(named(experiment)(seed=seed, **ledger.Cell(experiment, 1, parameters, seed).arguments))
    return results.decode(text, lambda digest: files[digest])


@cache
def ran(id: str) -> tuple[Found, ...]:
    """All of a claim's cells, run once for all claims, their results written and read as the store does."""
    return tuple(
        Found(cell.arguments, cell.seed, _result(cell.experiment, cell.seed, cell.parameters, cell.key))
        for cell in OURS[id].cells()
    )


def test_every_lemma_and_theorem_has_a_claim() -> None:
    lemmas = ["4.1", "4.2", "5.1", "5.2", "5.3", "5.4"]
    lemmas += [f"d.{k}" for k in (2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 16)] + ["e.1", "e.2", "e.3"]
    lemmas += [f"f.{k}" for k in (2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 16)]
    theorems = ["1.1", "1.2", "6.2", "d.5", "d.9", "d.13", "d.17", "e.4", "f.5", "f.9", "f.13", "f.17"]
    needed = {f"lemma-{x}" for x in lemmas} | {f"theorem-{x}" for x in theorems}
    needed |= {"fact-a.1", "claim-c.3", "claim-c.5", "figure-3", "figure-4", "figure-5", "figure-7"}
    assert {f"separation/{x}" for x in needed} <= set(OURS)


def test_every_claim_is_recorded() -> None:
    assert {id for id in expected() if id.startswith("separation/")} == set(OURS)


@pytest.mark.parametrize("id", QUICK)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    finding = OURS[id].check(ran(id))
    assert finding.verdict is expected()[id], finding
    assert finding.numbers


@pytest.mark.parametrize("id", sorted(OURS))
def test_what_holds_corrected_names_what_is_printed(id: str) -> None:
    assert bool(OURS[id].errata) == (expected()[id] is Verdict.HOLDS_CORRECTED)


def changed(found: Sequence[Found], where: Callable[[Found], bool], **to: Any) -> list[Found]:
    """The results with some entries of those that qualify set to other values."""
    assert any(where(one) and to.keys() <= one.result.keys() for one in found)
    return [
        replace(one, result={**one.result, **to}) if where(one) and to.keys() <= one.result.keys() else one
        for one in found
    ]


ENTRY = [id for id in QUICK if "entry_bounds" in OURS[id].figures]


@pytest.mark.parametrize("id", ENTRY)
def test_one_entry_against_a_lemma_fails_it(id: str) -> None:
    found = ran(id)
    part = next(iter(found[0].result["right"]))
    compared, _, ratio = found[0].result["right"][part]
    right = {**found[0].result["right"], part: [compared, 1, ratio]}
    one = found[0]
    assert OURS[id].check(changed(found, lambda x: x is one, right=right)).verdict is FAILS


@pytest.mark.parametrize("id", [id for id in ENTRY if OURS[id].errata])
def test_an_erratum_that_is_not_shown_is_not_reported(id: str) -> None:
    slips = [[compared, 0] for compared, _ in ran(id)[0].result["slips"]]
    assert OURS[id].check(changed(ran(id), lambda _: True, slips=slips)).verdict is UNDECIDED


@pytest.mark.parametrize("id", ENTRY)
def test_a_part_that_no_entry_is_about_is_undecided(id: str) -> None:
    part = next(iter(ran(id)[0].result["right"]))
    found = [
        replace(one, result={**one.result, "right": {**one.result["right"], part: [0, 0, None]}}) for one in ran(id)
    ]
    assert OURS[id].check(found).verdict is UNDECIDED


ROWS = [id for id in QUICK if "row_chances" in OURS[id].figures]


def _columns(one: Found, **to: float) -> dict[str, list[float]]:
    return {name: [value] * len(one.result["log10_n"]) for name, value in to.items()}


@pytest.mark.parametrize("id", ROWS)
def test_a_row_that_often_reaches_its_threshold_is_not_rare(id: str) -> None:
    found = [
        replace(one, result={**one.result, **_columns(one, reaches=-0.01)}) if "reaches" in one.result else one
        for one in ran(id)
    ]
    assert OURS[id].check(found).verdict is FAILS


@pytest.mark.parametrize("id", ["lemma-d.4", "lemma-e.3", "lemma-f.4"])
def test_a_special_row_that_never_reaches_its_threshold_fails(id: str) -> None:
    claim = OURS[f"separation/{id}"]
    found = [
        replace(one, result={**one.result, **_columns(one, reaches=-1e6)})
        if one.parameters["row"] == "special"
        else one
        for one in ran(claim.id)
    ]
    assert claim.check(found).verdict is FAILS


@pytest.mark.parametrize("id", ["lemma-d.8", "lemma-d.12", "lemma-d.16"])
def test_if_the_sum_were_near_plus_c_the_erratum_would_not_be_shown(id: str) -> None:
    claim = OURS[f"separation/{id}"]
    found = [
        replace(one, result={**one.result, **_columns(one, off_printed=-1e6)}) if "reaches" in one.result else one
        for one in ran(claim.id)
    ]
    assert claim.check(found).verdict is UNDECIDED


@pytest.mark.parametrize(
    ("id", "part"),
    [
        ("theorem-d.5", "exp_fires_on_d1"),
        ("theorem-d.9", "exp_silent_on_d0"),
        ("theorem-d.13", "lin_silent_on_d1"),
        ("theorem-d.17", "lin_silent_on_d0"),
        ("theorem-e.4", "exp_fires_on_d1"),
        ("theorem-f.5", "exp_fires_on_d1"),
        ("theorem-f.9", "exp_silent_on_d0"),
        ("theorem-f.13", "lin_silent_on_d1"),
        ("theorem-f.17", "lin_silent_on_d0"),
        ("theorem-6.2", "success"),
    ],
)
def test_a_theorem_whose_chance_of_failure_stays_fails(id: str, part: str) -> None:
    claim = OURS[f"separation/{id}"]
    found = [replace(one, result={**one.result, **_columns(one, **{part: -0.5})}) for one in ran(claim.id)]
    assert claim.check(found).verdict is FAILS


@pytest.mark.parametrize("id", ["theorem-d.5", "theorem-e.4", "theorem-f.5"])
def test_if_few_vectors_were_enough_the_erratum_would_not_be_shown(id: str) -> None:
    claim = OURS[f"separation/{id}"]
    found = [
        replace(one, result={**one.result, **_columns(one, exp_fires_on_d1=-1000.0)})
        if one.parameters["width"] == 1.0
        else one
        for one in ran(claim.id)
    ]
    assert claim.check(found).verdict is UNDECIDED


@pytest.mark.parametrize("id", ["theorem-6.2/paths", "theorem-e.4/paths", "theorem-f.5/paths"])
@pytest.mark.parametrize(("path", "success"), [("n^0.5", 0.5), ("10", 1.0)])
def test_paths_must_part(id: str, path: str, success: float) -> None:
    claim = OURS[f"separation/{id}"]
    found = [
        replace(one, result={**one.result, **_columns(one, probability=success)})
        if one.parameters["path"] == path
        else one
        for one in ran(claim.id)
    ]
    assert claim.check(found).verdict is FAILS


@pytest.mark.parametrize("id", ["theorem-1.1", "theorem-1.2"])
def test_a_separation_that_never_succeeds_refutes_existence(id: str) -> None:
    claim = OURS[f"separation/{id}"]
    found = [replace(one, result={**one.result, **_columns(one, success=-0.1)}) for one in ran(claim.id)]
    assert claim.check(found).verdict is FAILS


@pytest.mark.parametrize(
    ("id", "to", "verdict"),
    [
        ("lemma-4.1", {"lin_d0_within": False}, FAILS),
        ("lemma-4.1", {"exp_d0_within": False}, FAILS),
        ("lemma-4.1", {"enough": -1.0}, FAILS),
        ("lemma-4.1", {"lin_d0": 0.5}, FAILS),
        ("lemma-4.2", {"at_least_quarter": False}, FAILS),
        ("lemma-4.2", {"others": [0.0, 0.0]}, FAILS),
        ("lemma-4.2", {"below_quarter": 1}, FAILS),
        ("lemma-4.2", {"positive": 0.4375}, FAILS),
        ("lemma-5.1", {"exp_silent_on_d0": [0.0] * 16, "sample": [0.0, 1.0]}, FAILS),
        ("lemma-5.1", {"sample": [0.25, 0.25]}, UNDECIDED),
        ("lemma-5.2", {"above_half": False}, UNDECIDED),
        ("lemma-5.3", {"lin_silent_on_d0": [0.0] * 16, "sample": [0.0, 1.0]}, FAILS),
        ("lemma-5.4", {"lin_silent_on_d1": [0.0] * 16, "sample": [0.0, 1.0]}, FAILS),
        ("fact-a.1", {"by_rows": 1}, FAILS),
        ("fact-a.1", {"by_columns": 0}, UNDECIDED),
        ("fact-a.1", {"index_printed": True}, UNDECIDED),
        ("claim-c.3", {"sums": 1}, FAILS),
        ("claim-c.5", {"blocks": 1}, FAILS),
        ("definition-c.6", {"network": 1e-6}, FAILS),
        ("definition-c.6", {"takes_n": True}, UNDECIDED),
        ("figure-3/tau", {"low": [0.5] * 15, "high": [0.5] * 15}, UNDECIDED),
    ],
)
def test_other_results_give_another_verdict(id: str, to: dict[str, Any], verdict: Verdict) -> None:
    claim = OURS[f"separation/{id}"]
    assert claim.check(changed(ran(claim.id), lambda _: True, **to)).verdict is verdict


@pytest.mark.parametrize("figure", ["3", "4", "5", "7"])
def test_a_simulation_that_does_not_fit_the_exact_probability_is_found(figure: str) -> None:
    claim = OURS[f"separation/figure-{figure}"]
    one = ran(claim.id)[0]
    hits = [0 if x is not None else None for x in one.result["hits"]]
    assert claim.check(changed(ran(claim.id), lambda x: x is one, hits=hits)).verdict is FAILS


@pytest.mark.parametrize("figure", ["4", "5", "7"])
def test_settings_within_all_hypotheses_would_show_no_slip(figure: str) -> None:
    claim = OURS[f"separation/figure-{figure}"]
    found = [replace(x, result={**x.result, "broken": [[] for _ in x.result["broken"]]}) for x in ran(claim.id)]
    assert claim.check(found).verdict is UNDECIDED


def test_the_chance_of_a_count_is_the_binomial_tail() -> None:
    assert figures.chance(2, 4, 0.5, 0.5) == 1.0
    assert figures.chance(1, 4, 0.5, 0.5) == pytest.approx(5 / 16, rel=1e-12)
    assert figures.chance(4, 4, 0.2, 0.5) == pytest.approx(1 / 16, rel=1e-12)
    assert figures.chance(1, 4, 0.5, 0.9) == pytest.approx(5 / 16, rel=1e-12)
    assert figures.chance(1, 4, 0.0, 0.0) == 0.0
    assert figures.chance(3, 4, 1.0, 1.0) == 0.0
    assert figures.chance(0, 4, 0.0, 0.0) == 1.0


def test_a_path_is_followed_to_its_end() -> None:
    result = {
        "log10_n": [1.0, 2.0, 3.0, 4.0],
        "probability": [1.0, 0.5, 0.99, 1.0],
        "success": [-9.0, -3.9, -5.0, -6.0],
    }
    assert paths.passes(result) == 3.0
    assert paths.passes(result, 0.999) == 4.0
    assert paths.settles(result, "success") == 3.0  # delta / n is 10^-5 there: at most counts
    result["probability"][-1], result["success"][-1] = 0.9, -5.9
    assert paths.passes(result) is None
    assert paths.settles(result, "success") is None


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match="path"):
        paths.classes("sqrt n", 4)


def test_success_along_a_path_is_that_of_the_setting() -> None:
    found = next(x for x in ran("separation/theorem-6.2/paths") if x.parameters["path"] == "n^0.5").result
    at = found["log10_n"].index(4.0)
    setting = paths.setting("ones", 10**4, found["g"][at], found["m"][at])
    assert (found["g"][at], found["m"][at]) == (100, 14)
    assert found["probability"][at] == setting.success_probability().success
