"""Lemma E.15 of Wang, Wei, Hsu and Lee: the attention on a position of the subset lies between two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim, typographical
from separatrix.claims.misprint_pairs import ROUNDING, as_printed, compared
from separatrix.claims.selection.lemma_a_3 import leaning
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import subset_code
from separatrix.selection.isometry import restricted_isometry

WEIGHTS = (
    typographical(
        at="Lemma E.15, proof",
        shown_by="upper bound of the softmax",
        printed=r"$S_y(i) \le \frac{e^C}{q + (T - q) e^{-c C}}$, equal to the bound of the lemma; $c$ is "
        r"$\delta / (1 - 2 \delta)$.",
        right=r"$\frac{e^C}{q e^C + (T - q) e^{-c C}}$.",
        why="Each of the $q$ positions of the subset has the score $C$. The next line has the right denominator.",
    ),
    Erratum(
        rank=Rank.STATEMENT,
        at="Lemma E.15",
        slip="overlap with a subset's code",
        shown_by="bounds of the lemma",
        printed=r"$\frac{1}{q + (T - q) e^{-(1 - c) C}} \le S_y(i) \le \frac{1}{q + (T - q) e^{-(1 + c) C}}$ with "
        r"$c = \delta / (1 - 2 \delta)$.",
        right=r"With $c = \delta \sqrt{q} / (1 - \delta)$.",
        why="The overlaps are bounded by Lemma A.3, whose printed bound is false.",
    ),
)

SIDES = {"towards": (1, 1), "away": (-1, -1), "both": (1, -1)}
"""The signs of the overlaps of encodings outside the subset: all positive, all negative, or alternating."""


@experiment(version=3, name="selection.lemma_e15")
def weight_bounds(q: int, outside: int, lean: str, width: int, C: float, seed: int) -> dict[str, list[float] | float]:
    """Return the weight of a position in the subset, for q orthogonal encodings and others that overlap with all q.

    Each of the others has an overlap of magnitude 2 q / width with the code of the subset; with one of them the
    isometry constant is 2 sqrt(q) / width. `c` is the bound on overlaps, and `weight` the weight.
    """
    E = leaning(q, width, outside)
    for at in range(outside):
        E[q + at] *= SIDES[lean][at % 2]
    delta = restricted_isometry(E, q).upper
    S = torch.softmax(C * E @ subset_code(E, torch.arange(q)), 0)
    weight, c = float(S[0]), delta * math.sqrt(q) / (1 - delta)
    overlap = float((E[-1] @ subset_code(E, torch.arange(q))).abs())
    true = 1 / (q + outside * math.exp(-(1 + overlap) * C))
    forms = [math.exp(C) / (first + outside * math.exp(-overlap * C)) for first in (q, q * math.exp(C))]
    printed, right = (max(_beyond(weight, q, outside, C, bound)) for bound in (delta / (1 - 2 * delta), c))
    return {
        "upper bound of the softmax": [abs(forms[0] - true), abs(forms[1] - true)],
        "bounds of the lemma": [printed, right],
        "weight": weight,
        "c": c,
    }


def _beyond(weight: float, q: int, outside: int, C: float, c: float) -> tuple[float, float]:
    """The amounts by which a weight violates the lemma's lower and upper bounds, for a bound c on overlaps."""
    low, high = (1 / (q + outside * math.exp(-(1 - sign * c) * C)) for sign in (1, -1))
    return low - weight, weight - high


@claim(
    where="Lemma E.15",
    says=r"With $W = C W^\ast$, the attention on a position of the subset lies between two functions of $C$ and "
    r"$\delta$.",
    cells=lambda: [
        weight_bounds.cell(seed=0, q=q, outside=outside, lean=lean, width=64, C=C)
        for q, outside in ((2, 1), (2, 5), (3, 1), (3, 4), (4, 1), (4, 2), (6, 1))
        for lean in SIDES
        for C in (0.5, 2.0, 5.0)
    ],
    errata=WEIGHTS,
    neighbours=(
        *as_printed(WEIGHTS),
        Neighbour("with $0.9 c$ in place of $c$ in the lower bound", {"below": 0.9}),
        Neighbour("with $0.9 c$ in place of $c$ in the upper bound", {"above": 0.9}),
    ),
    history=(
        "Until 2026-11-17 all overlaps were positive, so that no weight came near the upper bound, and the printed "
        "statement was the only wrong neighbour. Encodings with negative overlaps, and with overlaps of both signs, "
        "were added.",
    ),
)
def lemma_e_15(cells: Sequence[CellResult], misprint: str = "", below: float = 1.0, above: float = 1.0) -> Finding:
    """Check both bounds, with `below` times c in the lower and `above` times c in the upper bound."""
    ends = []
    for cell in cells:
        q, outside, C = (cell.parameters[name] for name in ("q", "outside", "C"))
        weight, c = cell.result["weight"], cell.result["c"]
        ends.append([_beyond(weight, q, outside, C, scale * c)[at] for at, scale in enumerate((below, above))])
    least, most = (max(end[at] for end in ends) for at in (0, 1))
    numbers = {
        "largest amount by which a weight is below its lower bound": least,
        "largest amount by which a weight is above its upper bound": most,
    }
    return compared(cells, WEIGHTS, numbers, held=max(least, most) <= ROUNDING, misprint=misprint)
