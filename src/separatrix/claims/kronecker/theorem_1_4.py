"""Theorem 1.4 of Alman and Song: near-linear time below the threshold B = Theta((ln n)^(1/k)).

The worst-case cost of the polynomial method (see `separatrix.hardness.exponents`) is compared with that of exact
attention, at d = ceil(ln n) and tolerance 1/n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from separatrix.attention.near_linear.worst_case import worst_case_degree
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim
from separatrix.hardness import exponents
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

ORDERS = (2, 3, 4)

RATIOS = tuple(round(0.04 * step, 2) for step in range(1, 46))

_LENGTHS = tuple(range(6, 41, 2))

_PATH = (1e1, 1e2, 1e4, 1e8, 1e16, 1e32, 1e64, 1e128, 1e256)
"""The values of ln n on the path B^k = sqrt(ln n), which is o(ln n)."""


@experiment(version=1, name="kronecker.threshold")
def worst_case(order: int, log2_n: int, ratios: list[float], seed: int) -> dict[str, Any]:
    """Return the degree, log_n of the rank and log_n of the flops for each ratio B / (ln n)^(1/k).

    `border` is the ratio above which exact attention is cheaper. The computation is deterministic.
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
    """Return the limits of the exponents at fixed ratios, their break-even ratio, and exponents on a path.

    `path` holds values of ln n, at which B^k = sqrt(ln n). `at_half` holds the exponents at B = (ln n)^(1/k) / 2.
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
    """Return the degree that the planner certifies in float64, that of the formula, and the measured least degree.

    The measured degree is the least whose Chebyshev polynomial has an error of at most exp(-R) tol / (2 + tol) relative
    to the largest weight, which keeps the outputs within a relative tolerance tol.
    """
    log_n = log2_n * math.log(2.0)
    bound = ratio * log_n ** (1 / order)
    tolerance = exponents.relative_log_tolerance(log_n, order, bound)
    R, relative = bound**order, math.exp(tolerance)
    x = np.cos(np.linspace(0, np.pi, 2001))
    series = np.polynomial.chebyshev.chebinterpolate(lambda t: np.exp(R * t), 100)
    off = [float(np.abs(np.exp(R * x) - np.polynomial.chebyshev.chebval(x, series[: g + 1])).max()) for g in range(60)]
    return {
        "certified": worst_case_degree(R, relative),
        "exact": exponents.least_degree(R, tolerance),
        "measured": next((g for g, error in enumerate(off) if error <= relative * math.exp(-R) / (2 + relative)), None),
    }


grid = cell_grid(worst_case, {"order": ORDERS, "log2_n": _LENGTHS}, ratios=list(RATIOS))


def _cells() -> Iterator[Cell]:
    yield from grid()
    for order in ORDERS:
        yield limit.cell(seed=0, order=order, ratios=list(RATIOS), path=list(_PATH))
        for log2_n in (6, 10, 14, 20):
            for ratio in (0.25, 0.5, 0.75):
                yield certified.cell(seed=0, order=order, log2_n=log2_n, ratio=ratio)


def grid_of(cells: Sequence[CellResult]) -> list[CellResult]:
    """The cells of the phase diagram."""
    return [cell for cell in cells if "polynomial_exponent" in cell.result]


def limits_of(cells: Sequence[CellResult]) -> list[CellResult]:
    """The cells of the limits."""
    return [cell for cell in cells if "limit" in cell.result]


@claim(
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
def theorem_1_4(cells: Sequence[CellResult], path: str = "path", fewer: int = 0) -> Finding:
    """Check that exponents decrease towards 1 along B^k = sqrt(ln n), and to their limit at fixed ratios.

    The verdict would be *holds* if the exponents were within 0.1 of 1 at n = 2^40. The exponents use a formula for the
    degree, which must agree with the measured least degree; an earlier check compared it only with the library's
    planner, which uses the same formula.
    """
    limits = limits_of(cells)
    last = {cell.parameters["order"]: cell for cell in grid_of(cells) if cell.parameters["log2_n"] == max(_LENGTHS)}
    falls = all(
        all(later < earlier for earlier, later in zip(cell.result[path], cell.result[path][1:], strict=False))
        and cell.result[path][-1] < 1.05
        for cell in limits
    )
    reaches_its_limit = all(abs(cell.result["at_half"][-1] - cell.result["limit_at_half"]) < 1e-6 for cell in limits)
    planned = [cell.result for cell in cells if "certified" in cell.result]
    decided = [plan for plan in planned if plan["certified"] is not None]
    apart = max(plan["certified"] - plan["exact"] for plan in decided)
    early = sum(plan["certified"] < plan["exact"] for plan in decided)
    unlike = sum(plan["exact"] - fewer != plan["measured"] for plan in planned)
    half = {
        order: min(
            (abs(ratio - 0.52), exponent)
            for ratio, exponent in zip(cell.parameters["ratios"], cell.result["polynomial_exponent"], strict=True)
        )[1]
        for order, cell in last.items()
    }

    def by_order(values: dict[int, float]) -> str:
        return ", ".join(f"k = {order}: {value:.3g}" for order, value in sorted(values.items()))

    numbers: dict[str, float | str] = {
        "exponent at n = 2^40, B = 0.52 (ln n)^(1/k)": by_order(half),
        "limit of the exponent at B = 0.5 (ln n)^(1/k)": by_order(
            {cell.parameters["order"]: cell.result["limit_at_half"] for cell in limits}
        ),
        "exponent along B^k = sqrt(ln n), ln n = 10": by_order(
            {cell.parameters["order"]: cell.result["path"][0] for cell in limits}
        ),
        f"exponent along B^k = sqrt(ln n), ln n = {_PATH[-1]:g}": by_order(
            {cell.parameters["order"]: cell.result["path"][-1] for cell in limits}
        ),
        "exact attention is cheaper from B / (ln n)^(1/k), n = 2^40": by_order(
            {order: cell.result["border"] for order, cell in last.items()}
        ),
        "exact attention is cheaper from B / (ln n)^(1/k), in the limit": by_order(
            {cell.parameters["order"]: cell.result["border"] for cell in limits}
        ),
        "certified degree minus the degree in exact arithmetic, at most": apart,
        "planned cells that float64 cannot certify": len(planned) - len(decided),
        "cells whose degree is not the measured least degree": unlike,
    }
    if not (falls and reaches_its_limit) or early or unlike:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    if max(half.values()) < 1.1:
        return Finding(Verdict.HOLDS, numbers)
    note = (
        "The o(1) is about (1 + ln ln x) / ln x with x = ln n / B^k: it tends to zero, but at any n that fits in a "
        "computer it is of order one. At B = c (ln n)^(1/k) the exponent tends to a constant that depends on c^k alone."
    )
    return Finding(Verdict.HOLDS_ASYMPTOTICALLY, numbers, note)
