"""Lemma E.15 of Wang, Wei, Hsu and Lee: the attention on a position of the subset lies between two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.claims.ledger import Erratum, Finding, Found, Rank, claim
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.claims.selection.lemma_a_3 import leaning
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import subset_code
from separatrix.selection.isometry import restricted_isometry

WEIGHTS = (
    Erratum(
        rank=Rank.TYPOGRAPHICAL,
        at="Lemma E.15, proof",
        shown_by="upper bound of the softmax",
        printed=r"$S_y(i) \le \frac{e^C}{q + (T - q) e^{-c C}}$, equal to the bound of the lemma; $c$ is "
        r"$\delta / (1 - 2 \delta)$.",
        right=r"$\frac{e^C}{q e^C + (T - q) e^{-c C}}$.",
        why="The $q$ positions of the subset have the score $C$ each. The next line has it.",
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


@experiment(version=2, name="selection.lemma_e15")
def weight_bounds(q: int, outside: int, width: int, C: float, seed: int) -> dict[str, list[float]]:
    """The weight of a position in the subset, for q orthogonal encodings and others outside that lean on all q.

    Each has the overlap q c with the subset's code, where the isometry constant is about c sqrt(q).
    """
    E = leaning(q, width, outside)
    delta = restricted_isometry(E, q).upper
    S = torch.softmax(C * E @ subset_code(E, torch.arange(q)), 0)
    weight, length = float(S[0]), len(E)
    overlap = float((E[-1] @ subset_code(E, torch.arange(q))).abs())

    def beyond(c: float) -> float:
        low, high = (1 / (q + (length - q) * math.exp(-(1 - e * c) * C)) for e in (1, -1))
        return max(low - weight, weight - high)

    true = 1 / (q + (length - q) * math.exp(-(1 + overlap) * C))
    forms = [math.exp(C) / (first + (length - q) * math.exp(-overlap * C)) for first in (q, q * math.exp(C))]
    return {
        "upper bound of the softmax": [abs(forms[0] - true), abs(forms[1] - true)],
        "bounds of the lemma": [beyond(delta / (1 - 2 * delta)), beyond(delta * math.sqrt(q) / (1 - delta))],
    }


@claim(
    paper="selection",
    where="Lemma E.15",
    says=r"With $W = C W^\ast$, the attention on a position of the subset lies between two functions of $C$ and "
    r"$\delta$.",
    cells=lambda: [
        weight_bounds.cell(seed=0, q=q, outside=outside, width=64, C=C)
        for q, outside in ((2, 1), (2, 5), (3, 1), (3, 4), (4, 1), (4, 2), (6, 1))
        for C in (0.5, 2.0, 5.0)
    ],
    errata=WEIGHTS,
    neighbours=as_printed(WEIGHTS),
)
def lemma_e_15(found: Sequence[Found], misprint: str = "") -> Finding:
    return compared(found, WEIGHTS, misprint=misprint)
