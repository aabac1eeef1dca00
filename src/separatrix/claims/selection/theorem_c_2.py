"""Theorem C.2 of Wang, Wei, Hsu and Lee: what fully-connected nets cannot do, at worst."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from separatrix.claims.ledger import Erratum, Finding, Found, claim
from separatrix.claims.selection.misprint_pairs import compared
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.counterexample import fcn_counterexample
from separatrix.selection.fcn import FCN

WORST_CASE = (
    Erratum(
        shown_by="squared error",
        printed="Theorem C.2: on some input the squared norm of the error is at least 1/(2q).",
        right="The norm is at least 1/(2q), where tokens have norm at most 1/2; at most r, and it is at least r/q.",
        why="The proof finds two inputs that the net cannot tell apart and whose targets are 1/q apart. The zero net "
        "is off by exactly 1/(2q) on both, and 1/(4 q^2) is below 1/(2q). Without a bound on the tokens the pair can "
        "be scaled, and the statement is true with every constant.",
    ),
)


@experiment(version=1, name="selection.worst_case")
def worst_case(T: int, q: int, d: int, widths: list[int], zero: bool, seed: int) -> dict[str, object]:
    """The pair of Theorem C.2 at the proof's own scale, for a random net or for one that answers zero; and scaled."""
    net = FCN(T, q, d, widths, generator=seed, dtype=torch.float64)
    if zero:
        last = [part for part in net.modules() if isinstance(part, nn.Linear)][-1]
        for parameter in last.parameters():
            nn.init.zeros_(parameter)
    pair = fcn_counterexample(net, T, q, d, token_norm=0.5)
    error = max(pair.errors)
    return {
        "error": error,
        "squared error": [1 / (2 * q) - error**2, 1 / (2 * q) - error],
        "scaled": fcn_counterexample(net, T, q, d).loss,
    }


def _worst_cells() -> Iterator[Cell]:
    for T, q, d, widths in ((6, 2, 2, [5]), (8, 3, 1, [5, 32]), (5, 1, 3, [14, 8, 8]), (4, 4, 2, [1, 6])):
        for zero in (False, True):
            yield worst_case.cell(seed=0, T=T, q=q, d=d, widths=widths, zero=zero)


@claim(
    paper="selection",
    where="Theorem C.2",
    says="A net whose first layer has at most (T - q + 1) d - 1 neurons misses some input by at least 1/(2q) in "
    "squared norm.",
    cells=_worst_cells,
    errata=WORST_CASE,
)
def theorem_c_2(found: Sequence[Found]) -> Finding:
    """At the proof's scale the norm reaches 1/(2q) for every net and the square does not; scaled, both reach 1."""
    least = min(one.result["scaled"] for one in found)
    return compared(found, WORST_CASE, {"least error of a pair scaled to q": least}, held=least >= 1 - 1e-6)
