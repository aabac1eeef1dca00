"""The claims about Alman and Song's paper: their verdicts, and that each check can come out otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import separatrix as sx
from separatrix.attention.planning.plan import worst_case_degree
from separatrix.claims import ledger, load
from separatrix.claims.kronecker import (
    definitions,
    error_propagation,
    exponents,
    growth,
    largest_order,
    products,
    rank,
    threshold,
)
from separatrix.claims.kronecker.live_bytes import LiveBytes
from separatrix.claims.ledger import Claim, Found, Verdict
from separatrix.claims.verdicts import expected
from separatrix.lab import results
from separatrix.lab.registry import named

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    module.__name__ for module in (definitions, error_propagation, growth, largest_order, products, rank, threshold)
}
OURS = {name: one for name, one in ledger._REGISTRY.items() if one.check.__module__ in MODULES}


@cache
def ran(id: str) -> tuple[Found, ...]:
    """All of a claim's cells, run here, their results written and read as the store does."""

    def result(experiment: str, seed: int, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        text, files = results.encode(named(experiment)(seed=seed, **arguments))
        return results.decode(text, lambda digest: files[digest])

    return tuple(
        Found(cell.arguments, cell.seed, result(cell.experiment, cell.seed, cell.arguments))
        for cell in OURS[id].cells()
    )


def test_every_claim_of_the_paper_is_recorded() -> None:
    load("kronecker")
    recorded = {id for id in expected() if id.startswith("kronecker/")}
    assert recorded == {one.id for one in ledger.claims("kronecker")}


@pytest.mark.parametrize("id", sorted(OURS))
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    finding = OURS[id].check(ran(id))
    assert finding.verdict is expected()[id], finding
    assert finding.numbers


@pytest.mark.parametrize("id", sorted(OURS))
def test_what_holds_corrected_names_what_is_printed(id: str) -> None:
    claim = OURS[id]
    assert bool(claim.errata) == (expected()[id] is Verdict.HOLDS_CORRECTED)
    assert claim.profile == "quick"


def changed(found: Sequence[Found], where: Callable[[Found], bool], **to: Any) -> list[Found]:
    """The results with some entries of the first that qualifies set to other values."""
    at = next(i for i, one in enumerate(found) if where(one))
    one = found[at]
    assert to.keys() <= one.result.keys()
    return [*found[:at], replace(one, result={**one.result, **to}), *found[at + 1 :]]


def every(found: Sequence[Found], **to: Any) -> list[Found]:
    """All results that have these entries, with them set to other values."""
    return [replace(one, result={**one.result, **to}) if to.keys() <= one.result.keys() else one for one in found]


FAILS, HOLDS, UNDECIDED = Verdict.FAILS_AS_PRINTED, Verdict.HOLDS, Verdict.UNDECIDED
PATH_OF_A_CONSTANT = [2.0] * 9


@pytest.mark.parametrize(
    ("id", "to", "verdict"),
    [
        ("lemma-c.3", {"mismatches": 1}, FAILS),
        ("lemma-c.3", {"factored_flops": 7}, FAILS),
        ("lemma-c.5/part-1", {"part1": 1}, FAILS),
        ("lemma-c.5/part-2", {"part2": 1}, FAILS),
        ("lemma-c.5/part-3", {"part3": 1}, FAILS),
        ("lemma-d.3", {"violations": 1}, FAILS),
        ("lemma-d.5", {"violations": 1}, FAILS),
        ("lemma-d.6", {"violated": 1}, FAILS),
        ("lemma-e.1", {"mismatches": 1}, FAILS),
        ("lemma-e.1", {"printed": "0"}, FAILS),
        ("lemma-e.1", {"needed": 0}, UNDECIDED),
        ("lemma-e.1/proof", {"mismatches": 2}, FAILS),
        ("definition-1.5", {"exact": 1e-9}, FAILS),
        ("definition-1.5", {"polynomial": 1e-3}, FAILS),
        ("definition-c.2", {"corrected": 1e-3}, FAILS),
        ("definition-d.1", {"corrected": 1e-3}, FAILS),
        ("theorem-1.4/linear-growth", {"counted_flops": 1}, FAILS),
        ("theorem-1.4/linear-growth", {"state_bytes": 8}, FAILS),
        ("theorem-1.4/linear-growth", {"certificate": 1.0}, FAILS),
        ("theorem-1.4/linear-growth", {"error": 1.0}, FAILS),
        ("section-1.1/largest-order", {"order": [1] * 15}, FAILS),
        ("section-1.1/largest-order", {"above": [1.0] * 15}, FAILS),
        ("theorem-1.4/threshold", {"path": PATH_OF_A_CONSTANT}, FAILS),
        ("theorem-1.4/threshold", {"at_half": PATH_OF_A_CONSTANT}, FAILS),
        ("theorem-1.4/threshold", {"certified": 0}, FAILS),
    ],
)
def test_one_wrong_result_changes_the_verdict(id: str, to: dict[str, Any], verdict: Verdict) -> None:
    id = f"kronecker/{id}"
    assert OURS[id].check(changed(ran(id), lambda one: to.keys() <= one.result.keys(), **to)).verdict is verdict


@pytest.mark.parametrize(
    ("id", "to", "verdict"),
    [
        ("lemma-d.6", {"violated": 0}, HOLDS),
        ("lemma-e.1/proof", {"printed_mismatches": 0}, HOLDS),
        ("definition-1.5", {"printed": 0.0}, HOLDS),
        ("definition-c.2", {"c2_printed": 0.0}, HOLDS),
        ("definition-d.1", {"d1_printed": 0.0}, HOLDS),
        ("section-1.1/largest-order", {"exponent": [1.01] * 15}, HOLDS),
        ("theorem-1.4/threshold", {"polynomial_exponent": [1.01] * 45}, HOLDS),
        ("theorem-1.3", {"polynomial_exponent": [1.01] * 45}, UNDECIDED),
    ],
)
def test_had_the_paper_been_right_the_verdict_would_say_so(id: str, to: dict[str, Any], verdict: Verdict) -> None:
    id = f"kronecker/{id}"
    assert OURS[id].check(every(ran(id), **to)).verdict is verdict


def test_a_rank_that_moves_with_n_is_not_judged() -> None:
    id = "kronecker/theorem-1.4/linear-growth"
    one = [one for one in ran(id) if "counted_flops" in one.result][-1]
    scaled = {name: 2 * one.result[name] for name in ("rank", "counted_flops", "planned_flops", "state_bytes")}
    found = [replace(one, result={**one.result, **scaled}) if other is one else other for other in ran(id)]
    assert OURS[id].check(found).verdict is UNDECIDED


def test_live_bytes_are_those_of_a_computation_done_by_hand() -> None:
    x = torch.ones(50, 20, dtype=torch.float64)
    with LiveBytes([x]) as counted:
        y = x @ x.T  # 20,000 bytes
        z = y + y  # as many again: the peak
        del y
        z.mul_(2)  # in place, a view: nothing new
        row = z[0]
        total = z.sum(1)  # 400
        del z, row
        kept = total * 2  # 400
        del total
    assert (counted.peak, counted.now) == (40_000, kept.nbytes)


def test_the_page_of_the_derivation_has_the_numbers_that_are_computed() -> None:
    text = (ROOT / "docs" / "derivations" / "threshold.md").read_text("utf-8")
    for rho in (1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0, 2.0):
        assert f"| {exponents.limit_exponent(rho):.3f} " in text
    for order in (2, 3, 4, 5):
        assert f"| {exponents.limit_border(order):.4f} " in text
    u = 2.2334230637
    assert math.sqrt(1 + u * u) - u * math.asinh(u) + 1 == pytest.approx(0, abs=1e-9)


def test_the_quick_cells_are_few() -> None:
    claims: list[Claim] = list(OURS.values())
    assert sum(len(list(claim.cells())) for claim in claims) < 700


@pytest.mark.parametrize("radius", [0.3, 1.0, 4.0, 12.5])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-12])
def test_the_degree_is_the_least_whose_tail_keeps_the_tolerance(radius: float, tolerance: float) -> None:
    """Against mpmath: 2 sum_{j > g} I_j(R) <= eps exp(-R) / (2 + eps) at g, and not at g - 1."""
    degree = exponents.least_degree(radius, math.log(tolerance))
    most = tolerance * mpmath.exp(-radius) / (2 + tolerance)

    def tail(g: int) -> Any:
        return 2 * mpmath.fsum(mpmath.besseli(j, radius) for j in range(g + 1, g + 80))

    assert tail(degree) <= most < tail(degree - 1)
    assert degree <= math.ceil(exponents.chernoff_degree(radius, math.log(tolerance)))
    assert degree <= (worst_case_degree(radius, tolerance) or math.inf)


@pytest.mark.parametrize("rho", [1e-3, 0.1, 1.0])
def test_long_exponents_tend_to_their_limit(rho: float) -> None:
    limit = exponents.limit_exponent(rho)
    apart = [abs(exponents.long_exponent(10.0**p, 3, (rho * 10.0**p) ** (1 / 3)) - limit) for p in (2, 4, 8, 16)]
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 1e-12


@pytest.mark.parametrize("order", [2, 3, 4])
def test_at_the_border_the_limit_is_the_order(order: int) -> None:
    assert exponents.limit_exponent(exponents.limit_border(order) ** order) == pytest.approx(order, abs=1e-9)


def test_the_polynomial_is_cheaper_on_one_side_of_the_border() -> None:
    for one in ran("kronecker/theorem-1.3"):
        result = one.result
        for ratio, exponent in zip(one.parameters["ratios"], result["polynomial_exponent"], strict=True):
            assert (exponent < result["exact_exponent"]) == (ratio <= result["border"])


def test_rank_modulo_a_prime() -> None:
    rng = np.random.default_rng(0)
    for r in (0, 1, 7, 20):
        left, right = rng.integers(0, 1000, (20, r)), rng.integers(0, 1000, (r, 30))
        assert rank.rank_modulo(left @ right) == r


def test_the_experiments_see_a_library_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first index slowest, a scale of 1, coefficients without multinomials, an order too many."""
    kronecker = products.column_kronecker
    monkeypatch.setattr(products, "column_kronecker", lambda *matrices: kronecker(*reversed(matrices)))
    assert products.tensor_identities(n=9, d=3, seed=0)["part1"] > 0
    attention = sx.tensor_attention
    monkeypatch.setattr(sx, "tensor_attention", lambda *inputs: attention(*inputs, scale=1.0))
    assert definitions.order_k(order=3, n=7, d=3, seed=0)["exact"] > 1e-6
    monkeypatch.setattr(rank, "_multinomial", lambda alpha: 1)
    assert rank.low_rank(d=2, degree=2, seed=0)["mismatches"] > 0
    monkeypatch.setattr(largest_order, "max_order", lambda n, bound: 9)
    found = largest_order.rule(log2_n=20, bounds=[2.0], seed=0)
    assert found["order"] != found["solved"]
