"""Theorem 1.4 of Alman and Song: near-linear time below the border at B = Theta((ln n)^(1/k)).

What is computed is the worst case of the polynomial method (see `separatrix.hardness.exponents`) beside exact
attention, at d = ceil(ln n) and tolerance 1/n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from separatrix.attention.near_linear.worst_case import worst_case_degree
from separatrix.claims.ledger import Finding, Found, Neighbour, Verdict, claim
from separatrix.hardness import exponents
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

ORDERS = (2, 3, 4)


RATIOS = tuple(round(0.04 * step, 2) for step in range(1, 46))


_LENGTHS = tuple(range(6, 41, 2))


_PATH = (1e1, 1e2, 1e4, 1e8, 1e16, 1e32, 1e64, 1e128, 1e256)
"""ln n, along B^k = sqrt(ln n), which is o(ln n)."""


@experiment(version=1, name="kronecker.threshold")
def worst_case(order: int, log2_n: int, ratios: list[float], seed: int) -> dict[str, Any]:
    """For each ratio B / (ln n)^(1/k): the degree, log_n of the rank and of the flops. Nothing is drawn.

    `border` is the ratio from which exact attention is the cheaper.
    """
    root = (log2_n * math.log(2.0)) ** (1 / order)
    rows = [exponents.polynomial_exponent(log2_n, order, ratio * root) for ratio in ratios]
    exact = exponents.exact_exponent(log2_n, order)

    def cheaper(ratio: float) -> bool:
        return exponents.polynomial_exponent(log2_n, order, ratio * root)[2] < exact

    return {
        "degree": [degree for degree, _, _ in rows],
        "rank_exponent": [rank for _, rank, _ in rows],
        "polynomial_exponent": [flops for _, _, flops in rows],
        "exact_exponent": exact,
        "border": exponents.border(cheaper, 1e-6, 4.0) if cheaper(1e-6) else 0.0,
    }


@experiment(version=1, name="kronecker.threshold_limit")
def limit(order: int, ratios: list[float], path: list[float], seed: int) -> dict[str, Any]:
    """The limits as n grows at a given ratio, where they meet exact attention, and the exponents along a path.

    `path` has values of ln n; on it B^k = sqrt(ln n). `at_half` is the exponent there at B = (ln n)^(1/k) / 2.
    """
    return {
        "limit": [exponents.limit_exponent(ratio**order) for ratio in ratios],
        "border": exponents.limit_border(order),
        "path": [exponents.long_exponent(log_n, order, log_n ** (0.5 / order)) for log_n in path],
        "at_half": [exponents.long_exponent(log_n, order, 0.5 * log_n ** (1 / order)) for log_n in path],
        "limit_at_half": exponents.limit_exponent(0.5**order),
    }


@experiment(version=2, name="kronecker.certified_degree")
def certified(order: int, log2_n: int, ratio: float, seed: int) -> dict[str, int | None]:
    """The degree that the library's planner certifies in float64, beside that of the formula and one that is measured.

    The measured one is the least whose Chebyshev polynomial is everywhere near enough to exp: weights that err by at
    most a part exp(-R) tol / (2 + tol) of the largest make outputs that keep a relative tolerance tol.
    """
    log_n = log2_n * math.log(2.0)
    bound = ratio * log_n ** (1 / order)
    tolerance = exponents.relative_log_tolerance(log_n, order, bound)
    R, kept = bound**order, math.exp(tolerance)
    x = np.cos(np.linspace(0, np.pi, 2001))
    series = np.polynomial.chebyshev.chebinterpolate(lambda t: np.exp(R * t), 100)
    off = [float(np.abs(np.exp(R * x) - np.polynomial.chebyshev.chebval(x, series[: g + 1])).max()) for g in range(60)]
    return {
        "certified": worst_case_degree(R, kept),
        "exact": exponents.least_degree(R, tolerance),
        "measured": next((g for g, error in enumerate(off) if error <= kept * math.exp(-R) / (2 + kept)), None),
    }


def grid() -> Iterator[Cell]:
    for order in ORDERS:
        for log2_n in _LENGTHS:
            yield worst_case.cell(seed=0, order=order, log2_n=log2_n, ratios=list(RATIOS))


def _cells() -> Iterator[Cell]:
    yield from grid()
    for order in ORDERS:
        yield limit.cell(seed=0, order=order, ratios=list(RATIOS), path=list(_PATH))
        for log2_n in (6, 10, 14, 20):
            for ratio in (0.25, 0.5, 0.75):
                yield certified.cell(seed=0, order=order, log2_n=log2_n, ratio=ratio)


def grid_of(found: Sequence[Found]) -> list[Found]:
    """The cells of the phase diagram."""
    return [one for one in found if "polynomial_exponent" in one.result]


def limits_of(found: Sequence[Found]) -> list[Found]:
    """The cells that have the limits."""
    return [one for one in found if "limit" in one.result]


@claim(
    paper="kronecker",
    where="Theorem 1.4",
    part="threshold",
    says=r"With $d = O(\log n)$, entries $o((\log n)^{1/3})$ and tolerance $1 / \text{poly}(n)$, tensor attention "
    r"takes time $n^{1 + o(1)}$; in general the border is at $(\log n)^{1/k}$.",
    cells=_cells,
    figures=("threshold_phase_diagram", "threshold_limit"),
    neighbours=(
        Neighbour(r"entries of $0.5 (\log n)^{1/k}$ take time $n^{1 + o(1)}$ too", {"path": "at_half"}),
        Neighbour("polynomials of one degree less keep the tolerance", {"fewer": 1}),
    ),
)
def theorem_1_4(found: Sequence[Found], path: str = "path", fewer: int = 0) -> Finding:
    """Holds asymptotically if exponents fall towards 1 along B^k = sqrt(ln n), and at a given ratio to their limit.

    It would plainly hold if they were within 0.1 of 1 at n = 2^40 already. The exponents rest on a formula for the
    degree, which must be the least that is measured; until it was looked at again it was compared with the library's
    planner alone, which has the same formula.
    """
    limits = limits_of(found)
    last = {one.parameters["order"]: one for one in grid_of(found) if one.parameters["log2_n"] == max(_LENGTHS)}
    falls = all(
        all(later < earlier for earlier, later in zip(one.result[path], one.result[path][1:], strict=False))
        and one.result[path][-1] < 1.05
        for one in limits
    )
    reaches_its_limit = all(abs(one.result["at_half"][-1] - one.result["limit_at_half"]) < 1e-6 for one in limits)
    planned = [one.result for one in found if "certified" in one.result]
    decided = [one for one in planned if one["certified"] is not None]
    apart = max(one["certified"] - one["exact"] for one in decided)
    early = sum(one["certified"] < one["exact"] for one in decided)
    unlike = sum(one["exact"] - fewer != one["measured"] for one in planned)
    half = {
        order: min(
            (abs(ratio - 0.52), exponent)
            for ratio, exponent in zip(one.parameters["ratios"], one.result["polynomial_exponent"], strict=True)
        )[1]
        for order, one in last.items()
    }

    def each(values: dict[int, float]) -> str:
        return ", ".join(f"k = {order}: {value:.3g}" for order, value in sorted(values.items()))

    numbers: dict[str, float | str] = {
        "exponent at n = 2^40, B = 0.52 (ln n)^(1/k)": each(half),
        "limit of the exponent at B = 0.5 (ln n)^(1/k)": each(
            {one.parameters["order"]: one.result["limit_at_half"] for one in limits}
        ),
        "exponent along B^k = sqrt(ln n), ln n = 10": each(
            {one.parameters["order"]: one.result["path"][0] for one in limits}
        ),
        f"exponent along B^k = sqrt(ln n), ln n = {_PATH[-1]:g}": each(
            {one.parameters["order"]: one.result["path"][-1] for one in limits}
        ),
        "exact attention is cheaper from B / (ln n)^(1/k), n = 2^40": each(
            {order: one.result["border"] for order, one in last.items()}
        ),
        "exact attention is cheaper from B / (ln n)^(1/k), in the limit": each(
            {one.parameters["order"]: one.result["border"] for one in limits}
        ),
        "certified degree above that of exact arithmetic by at most": apart,
        "planned cells that float64 cannot certify": len(planned) - len(decided),
        "cells whose degree is not the least that is measured": unlike,
    }
    if not (falls and reaches_its_limit) or early or unlike:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    if max(half.values()) < 1.1:
        return Finding(Verdict.HOLDS, numbers)
    note = (
        "The o(1) is about (1 + ln ln x) / ln x with x = ln n / B^k: it tends to zero, but at any n that fits in a "
        "computer it is of order one. At B = c (ln n)^(1/k) the exponent tends to a constant that depends on c^k "
        "alone."
    )
    return Finding(Verdict.HOLDS_ASYMPTOTICALLY, numbers, note)
