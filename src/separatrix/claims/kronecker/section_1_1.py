"""The rule of Alman and Song's introduction: attend at the largest order k with B < (ln n)^(1/k)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from separatrix.attention.near_linear.worst_case import max_order
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim
from separatrix.hardness import exponents
from separatrix.lab.registry import experiment

_BOUNDS = (1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)


@experiment(version=1, name="kronecker.largest_order")
def rule(log2_n: int, bounds: list[float], seed: int) -> dict[str, Any]:
    """Return the library's order, the rule solved for k, and log_n of the worst-case flops, for each bound B.

    The condition B^k < ln n is equivalent to k < ln ln n / ln B. `above` is the exponent at the next order. The
    computation is deterministic.
    """
    n, log_log_n = 2**log2_n, math.log(log2_n * math.log(2.0))
    orders = [int(max_order(n, bound)) for bound in bounds]

    def cost(order: int, bound: float) -> float | None:
        return exponents.polynomial_exponent(log2_n, order, bound)[2] if order >= 2 else None

    return {
        "order": orders,
        "solved": [max(0, math.ceil(log_log_n / math.log(bound)) - 1) for bound in bounds],
        "exponent": [cost(order, bound) for order, bound in zip(orders, bounds, strict=True)],
        "above": [cost(order + 1, bound) for order, bound in zip(orders, bounds, strict=True)],
        "limit_at_border": exponents.limit_exponent(1.0),
    }


@claim(
    where="Section 1.1",
    part="largest order",
    says=r"With entries up to $B$, the order to use is the largest $k$ with $B < (\log n)^{1/k}$: attention of this "
    "order can be computed quickly, and attention of a higher order cannot.",
    cells=cell_grid(rule, {"log2_n": range(6, 41, 2)}, bounds=list(_BOUNDS)),
    figures=("largest_order",),
    neighbours=(
        Neighbour(r"the largest order with $B < (\log n)^{1 / (k - 1)}$", {"shift": 1}),
        Neighbour("the next order has an exponent larger by a tenth", {"dearer": 1.1}),
    ),
)
def largest_order(cells: Sequence[CellResult], shift: int = 0, dearer: float = 1.0) -> Finding:
    """Return *illustrated* if the library's rule equals the paper's rule solved for k, and the next order costs more.

    An earlier version of this check returned `holds asymptotically`. That a higher order cannot be computed quickly is
    a conditional lower bound, and only the cost of one method is counted here.
    """
    results = [cell.result for cell in cells]
    wrong = sum(
        ours != theirs + shift
        for result in results
        for ours, theirs in zip(result["order"], result["solved"], strict=True)
    )
    pairs = [
        (at, above)
        for result in results
        for at, above in zip(result["exponent"], result["above"], strict=True)
        if at is not None and above is not None
    ]
    cheaper = sum(above <= dearer * at for at, above in pairs)
    largest = max(at for at, _ in pairs)
    numbers: dict[str, float | str] = {
        "pairs (n, B)": sum(len(result["order"]) for result in results),
        "pairs where the library's order differs from the rule": wrong,
        "pairs where the next order costs no more": cheaper,
        "exponent at the rule's order, least": min(at for at, _ in pairs),
        "exponent at the rule's order, largest": largest,
        "its limit at B = (ln n)^(1/k)": max(result["limit_at_border"] for result in results),
    }
    if wrong or cheaper:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    note = (
        "That a higher order cannot be computed quickly rests on a hypothesis, which no program decides. We counted "
        "the work of the polynomial method at the order that the rule gives and at the next order. Up to a constant, "
        "the rule and the theorems have the same border. At the border the polynomial method's exponent is a constant "
        "for every order, far below k when k is large, and not 1: for near-linear time B^k must be small compared with "
        "ln n."
    )
    return Finding(Verdict.ILLUSTRATED, numbers, note)
