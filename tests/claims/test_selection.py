"""The claims about Wang, Wei, Hsu and Lee's paper: their verdicts, and that each check can come out otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from separatrix.claims.ledger import Erratum, Finding, Found, Verdict
from separatrix.claims.selection import (
    construction,
    definitions,
    encodings,
    gradients,
    heat_maps,
    one_hot_time,
    runs,
    slips,
    stochastic_lemmas,
    training,
)
from separatrix.claims.verdicts import expected
from separatrix.errors import ArgumentError
from separatrix.selection.training import Record
from tests.claims.selection_cells import FULL, OURS, QUICK, ran, shortened

FAILS, HOLDS, CORRECTED, UNDECIDED = (
    Verdict.FAILS_AS_PRINTED,
    Verdict.HOLDS,
    Verdict.HOLDS_CORRECTED,
    Verdict.UNDECIDED,
)


def test_every_claim_is_recorded() -> None:
    assert {id for id in expected() if id.startswith("selection/")} == set(OURS)


@pytest.mark.parametrize("id", QUICK)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    finding = OURS[id].check(ran(id))
    assert finding.verdict is expected()[id], finding
    assert finding.numbers


@pytest.mark.parametrize("id", sorted(OURS))
def test_what_is_misprinted_is_named(id: str) -> None:
    """A claim that holds corrected names its errata; one that holds has none."""
    verdict, claim = expected()[id], OURS[id]
    if verdict is CORRECTED:
        assert claim.errata
    if verdict in (HOLDS, Verdict.ILLUSTRATED):
        assert not claim.errata
    for erratum in claim.errata:
        assert erratum.printed != erratum.right
        assert erratum.why


@pytest.mark.parametrize("id", FULL)
def test_a_full_claim_runs(id: str) -> None:
    """With few steps nothing is learnt, and a check says so instead of breaking."""
    finding = OURS[id].check(shortened(id))
    assert finding.verdict in ((HOLDS,) if id == "selection/theorem-3.5/trained-nets" else (FAILS, HOLDS, CORRECTED))
    assert finding.numbers


def test_full_training_cells_are_the_papers() -> None:
    cells = {cell for id in FULL for cell in OURS[id].cells() if cell.experiment == "selection.training"}
    sizes = {tuple(cell.arguments[name] for name in ("T", "q", "d", "width", "steps")) for cell in cells}
    assert sizes == {(200, 3, 5, 170, 100_000)}
    kinds = {tuple(cell.arguments[name] for name in ("encoding", "optimiser", "initial", "batch")) for cell in cells}
    wanted = {(e, o, i, 128) for e in ("stochastic", "fixed") for o in ("sgd", "adam") for i in ("zero", "random")}
    assert kinds == wanted | {(e, "sgd", "zero", 256) for e in ("stochastic", "fixed")}
    seeds = {cell.seed for cell in cells if cell.arguments["optimiser"] == "sgd" and cell.arguments["batch"] == 128}
    assert seeds == set(range(5))
    assert len(cells) == 2 * 5 + 6 + 2 + 4


def changed(found: Sequence[Found], **to: Any) -> list[Found]:
    """The results with entries of the first that has them set to other values."""
    at = next(i for i, one in enumerate(found) if to.keys() <= one.result.keys())
    return [*found[:at], replace(found[at], result={**found[at].result, **to}), *found[at + 1 :]]


@pytest.mark.parametrize(
    ("id", "to", "verdict"),
    [
        ("appendix-a.2", {"loss_sigmas": 7.0}, FAILS),
        ("appendix-a.2", {"slope_sigmas": -7.0}, FAILS),
        ("lemma-a.2", {"C": None}, UNDECIDED),
        ("lemma-a.3", {"inside": 1e-3}, FAILS),
        ("lemma-a.3", {"norm_missed": 0.1}, FAILS),
        ("lemma-a.3", {"overlap outside the subset": [0.1, 0.1]}, FAILS),
        ("appendix-f/restricted-isometry", {"lower": 0.4}, UNDECIDED),
        ("theorem-c.3", {"error": 1.0}, FAILS),
        ("theorem-c.3", {"over_bound": 1.1}, FAILS),
        ("theorem-c.3", {"proof_error": 1.0}, FAILS),
        ("theorem-3.5", {"eigenvalue_gap": 1e-3}, FAILS),
        ("theorem-3.5", {"random_missed": 1e-3}, FAILS),
        ("theorem-3.5", {"squared_error": 0.0, "floor": 0.5}, FAILS),
        ("theorem-c.2", {"scaled": 0.9}, FAILS),
        ("lemma-d.1", {"apart": 1e-3}, FAILS),
        ("lemma-d.2", {"lemma": 1e-3}, FAILS),
        ("lemma-d.5", {"leaves": 1e-3}, FAILS),
        ("lemma-d.5", {"off": 1e-3}, FAILS),
        ("theorem-3.1", {"steps": 10**18}, FAILS),
        ("theorem-3.1", {"allowed": 0}, UNDECIDED),
        ("section-3.1/tail", {"loss_power": -0.5}, FAILS),
        ("section-3.1/tail", {"constant": 2.0}, FAILS),
        ("equation-6", {"gap": 1.0}, FAILS),
        ("equation-6", {"factor": 1.0}, FAILS),
        ("theorem-3.3", {"times": [None]}, UNDECIDED),
        ("theorem-3.3", {"largest rate": [1.0, 1.0]}, FAILS),
        ("lemma-e.7", {"spread": 1e-3}, FAILS),
        ("lemma-e.7", {"bounds": 1e-3}, FAILS),
        ("lemma-e.14", {"uneven": 1e-3}, FAILS),
        ("lemma-e.14", {"unmoved": 1e-3}, FAILS),
        ("corollary-3.6", {"limit": [1.0] * 4}, UNDECIDED),
        ("corollary-e.9", {"longer": 2.0}, FAILS),
        ("figure-8/first-1-000-steps", {"cosine_V": [0.0, 0.5]}, FAILS),
        ("figure-8/first-1-000-steps", {"off_W": [1.0, 0.5]}, FAILS),
        ("figure-8/first-1-000-steps", {"moved": 0.1}, HOLDS),
        ("figure-8/first-1-000-steps", {"stopped": "The run diverged."}, UNDECIDED),
    ],
)
def test_one_other_result_changes_the_verdict(id: str, to: dict[str, Any], verdict: Verdict) -> None:
    id = f"selection/{id}"
    assert OURS[id].check(changed(ran(id), **to)).verdict is verdict


@pytest.mark.parametrize("id", [id for id in QUICK if any(slip in id for slip in ("proof", "lemma-e.15", "shapes"))])
def test_had_a_step_been_right_or_its_correction_wrong(id: str) -> None:
    """Every slip of a chain: not shown, and nothing is decided; its correction missed, and the claim fails."""
    names = list(ran(id)[0].result)
    for name in names:
        silent = [replace(one, result={**one.result, name: [0.0, 0.0]}) for one in ran(id)]
        assert OURS[id].check(silent).verdict is (UNDECIDED if len(names) > 1 else HOLDS)
        assert OURS[id].check(changed(ran(id), **{name: [0.5, 0.5]})).verdict is FAILS
    right = [replace(one, result={name: [0.0, 0.0] for name in names}) for one in ran(id)]
    assert OURS[id].check(right).verdict is HOLDS


def test_slips_are_judged_over_all_cells() -> None:
    slip = {"a": Erratum("x", "y", "z")}
    cells = [Found({}, 0, {"a": [1.0, -1.0]}), Found({}, 0, {"a": [-1.0, 0.0]}), Found({}, 0, {"b": 1})]
    assert slips.judged(cells, slip).verdict is CORRECTED
    assert slips.judged([*cells, Found({}, 0, {"a": [-1.0, 1e-6]})], slip).verdict is FAILS


def _edited(id: str, encoding: str, edit: Callable[[dict[str, Any]], None]) -> Finding:
    """The verdict after the result of one architecture's runs was edited."""
    found = []
    for one in ran(id):
        result = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in one.result.items()}
        if one.parameters["encoding"] == encoding:
            edit(result)
        found.append(replace(one, result=result))
    return OURS[id].check(found)


def test_the_checks_of_the_runs_see_what_they_speak_of() -> None:
    one, two = "selection/figure-1/small", "selection/figure-2/small"
    assert _edited(one, "stochastic", lambda r: r["cosine_W"].__setitem__(-1, 0.5)).verdict is FAILS
    assert _edited(one, "stochastic", lambda r: r["loss"].__setitem__(slice(None), 0.5)).verdict is FAILS
    assert _edited(one, "fixed", lambda r: r["cosine_W"].__setitem__(-1, 0.5)).verdict is HOLDS
    assert _edited(two, "fixed", lambda r: r["validation"].__imul__(0.01)).verdict is FAILS
    assert _edited(two, "stochastic", lambda r: r["validation"].__setitem__(slice(None), 0.03)).verdict is FAILS
    assert _edited(two, "stochastic", lambda r: r.update(stopped="The run diverged.")).verdict is UNDECIDED


def _pair(
    free: float, fixed: float, tasks: Sequence[str], seeds: int = 1, growth: float = 0.1, **more: Any
) -> list[Found]:
    """Runs of both architectures that fall from 1 to the given ends and stay there, each task above the one before."""
    made = []
    for encoding, end in (("stochastic", free), ("fixed", fixed)):
        for seed in range(seeds):
            losses = np.concatenate([np.geomspace(1, end, 15), np.full(85, end)])
            result = {
                "step": np.arange(100),
                "tasks": list(tasks),
                "validation": losses[:, None] * (1 + growth * np.arange(len(tasks))),
                "stopped": None,
            }
            made.append(Found({"encoding": encoding, "threshold": 0.4, **more}, seed, result))
    return made


def test_the_floor_of_fixed_encodings_is_read_off_every_length() -> None:
    check = OURS["selection/figure-4/floor-of-fixed-encodings"].check
    assert check(_pair(0.01, 0.2, ["T=250", "T=400"], seeds=2)).verdict is HOLDS
    assert check(_pair(0.01, 0.149, ["T=250", "q=5"])).verdict is FAILS
    least = check(_pair(0.01, 0.2, ["T=250", "q=5"])).numbers["least end of a fixed run, 0.15 in the paper"]
    assert least == pytest.approx(0.2)


def test_subsets_and_lengths_have_their_own_checks() -> None:
    subsets, lengths = (OURS[f"selection/figure-4/{part}"].check for part in ("subsets", "lengths"))
    assert subsets(_pair(0.01, 0.05, ["q=5", "q=6"], seeds=3)).verdict is HOLDS
    assert subsets(_pair(0.01, 0.05, ["q=5", "q=6"], seeds=3, growth=-0.1)).verdict is FAILS
    assert subsets(_pair(0.05, 0.01, ["q=5", "q=6"], seeds=3)).verdict is FAILS
    assert subsets(_pair(0.01, 0.5, ["q=5", "q=6"], seeds=3)).verdict is FAILS
    assert lengths(_pair(0.01, 0.2, ["T=250"], seeds=3)).verdict is HOLDS
    assert lengths(_pair(0.045, 0.2, ["T=250"], seeds=3)).verdict is FAILS
    assert lengths(_pair(0.06, 0.4, ["T=250"], seeds=3)).verdict is FAILS
    assert OURS["selection/figure-5"].check(_pair(0.01, 0.2, ["T=250", "q=5"])).verdict is HOLDS


@pytest.mark.parametrize("id", [id for id in FULL if "figure-8" not in id and "theorem" not in id])
def test_a_run_that_diverged_decides_nothing(id: str) -> None:
    found = _pair(0.01, 0.2, ["T=250", "q=5"], seeds=2)
    found[-1].result["stopped"] = "The run diverged."  # type: ignore[index]
    assert OURS[id].check(found).verdict is UNDECIDED


def test_a_diverged_run_is_tabulated() -> None:
    records = [Record(0, None, 1.0, None, None, {"T=9": 0.5}), Record(7, 3.0, 1.0, 0.1, 0.2, {}, None, "diverged")]
    table = training.tabulated(records)
    assert np.isnan(table["loss"][0])
    assert np.isnan(table["validation"][1]).all()
    assert table["stopped"] == "diverged"
    assert "W" not in table


def test_an_interval_needs_no_more_than_two_seeds() -> None:
    found = training.interval([1.0, 2.0])
    assert (found.value, round(found.high, 3)) == (1.5, 7.853)  # t_{0.975, 1} = 12.706, times 1/2


def test_the_leaning_encoding_is_refused_where_it_does_not_exist() -> None:
    with pytest.raises(ArgumentError, match="a power of 2 above q"):
        encodings.leaning(3, 12)


def test_the_experiments_see_a_library_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A code that is not normalised, a bound too low, a gradient of the wrong sign, a run that is longer."""
    code = encodings.subset_code
    monkeypatch.setattr(encodings, "subset_code", lambda E, y: 0.9 * code(E, y))
    assert encodings.subset_codes(kind="random", T=9, q=2, width=512, seed=1)["inside"] > 0.05
    gradient = gradients.batch_gradient
    monkeypatch.setattr(gradients, "batch_gradient", lambda *a: tuple(-part for part in gradient(*a)))
    assert gradients.batch_gradients(T=5, q=2, d=2, width=6, seed=0)["apart"] > 1e-3
    monkeypatch.setattr(one_hot_time, "time_to_loss", lambda *_: 10**12)
    one = one_hot_time.counted(sweep="T", T=16, q=2, d=2, lr=1 / 80, epsilon=2e-3, seed=0)
    assert one["steps"] > one["bound"]
    exact = definitions.exact_gradient
    monkeypatch.setattr(definitions, "exact_gradient", lambda *a: tuple(2 * part for part in exact(*a)))
    found = definitions.one_or_many(T=5, q=2, d=2, width=12, samples=4000, seed=0)
    assert abs(found["loss_sigmas"]) > 6
    monkeypatch.setattr(construction, "overlaps", lambda E, y: torch.zeros(len(y), 1))
    assert (
        construction.constructed(T=30, q=2, d=5, width=64, threshold=0.4, epsilon=0.1, samples=50, seed=0)[
            "proof_share"
        ]
        == 1.0
    )


def test_the_valid_encodings_are_all_of_them() -> None:
    stack = stochastic_lemmas.valid_encodings()
    assert stack.shape == (26880, 4, 4)
    assert len(stack.unique(dim=0)) == len(stack)


def test_the_small_runs_fit_the_quick_profile() -> None:
    assert runs.SMALL["steps"] * 2 <= 10_000
    assert sum(cell.arguments.get("steps", 0) for cell in heat_maps.figure_8_start.cells()) <= 1000
