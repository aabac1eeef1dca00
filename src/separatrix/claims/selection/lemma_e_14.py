"""Lemma E.14 of Wang, Wei, Hsu and Lee: the mean attention over valid encodings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim
from separatrix.claims.misprint_pairs import as_printed, compared, missed
from separatrix.claims.selection.valid_encodings import FIVE, LARGEST, SIZES, TIGHT, attention, valid_encodings
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding, subset_code
from separatrix.selection.task import all_subsets

EXCHANGE = (
    Erratum(
        rank=Rank.PROOF,
        at="Lemma E.14, proof",
        shown_by="what is exchanged",
        printed="$E' = R_{i j} E$, which exchanges coordinates $i$ and $j$ of every encoding, turns $S_y(i)$ into "
        "$S_y(j)$.",
        right="$E' = E P_{i j}$, which exchanges the encodings of positions $i$ and $j$.",
        why="Exchanging coordinates changes no dot product, so that it leaves $S_y(i)$ as it is (Lemma E.11).",
    ),
)


@experiment(version=2, name="selection.lemma_e14")
def mean_attention(T: int, q: int, width: int, C: float, seed: int) -> dict[str, object]:
    """Return the mean attention over valid encodings, and that of an encoding with coordinates or positions exchanged.

    `apart` is the difference between the mean attention on a position inside the subset and on one outside.
    """
    stack = valid_encodings(T, width)
    uneven, unmoved, apart = 0.0, 0.0, 0.0
    flips = torch.ones(width, dtype=torch.float64)
    flips[1] = -1
    exchanged = [1, 0, *range(2, width)]
    for subset in all_subsets(T, q):
        S = attention(stack, subset, C)
        inside = torch.zeros(T, dtype=torch.bool).index_fill(0, subset, True)
        mean = S.mean(0)
        uneven = max(uneven, *(float(part.max() - part.min()) for part in (mean[inside], mean[~inside])))
        apart = max(apart, float(mean[inside].min() - mean[~inside].max()))
        for changed in (stack * flips, stack[:, :, exchanged]):
            again = attention(changed, subset, C)
            unmoved = max(unmoved, float((again - S).abs().max()))
    E = near_orthogonal_encoding(6, 10, threshold=0.8, generator=seed, dtype=torch.float64).E
    pairs = []
    for i, j in itertools.combinations(range(2, 6), 2):
        order, places = list(range(6)), list(range(10))
        order[i], order[j] = j, i
        places[i], places[j] = j, i
        expected = _attention(E, C)[j]
        pairs.append(
            (
                float((_attention(E[:, places], C)[i] - expected).abs()),
                float((_attention(E[order], C)[i] - expected).abs()),
            )
        )
    return {"uneven": uneven, "unmoved": unmoved, "apart": apart, "what is exchanged": missed(pairs)}


def _attention(E: Tensor, C: float) -> Tensor:
    """The attention S_y of the subset of the first two positions."""
    return torch.softmax(C * E @ subset_code(E, torch.tensor([0, 1])), 0)


@claim(
    where="Lemma E.14",
    says="The mean attention over valid encodings is the same for all positions in the subset, and the same for all "
    "outside it; flips and exchanges of coordinates change no attention (Lemmas E.10, E.11).",
    cells=joined(
        cell_grid(mean_attention, {"T q width": SIZES, "C": (0.5, 2.0, 6.0)}, seed=1),
        cell_grid(mean_attention, {"T q width": (LARGEST, FIVE)}, seed=1, C=2.0),
    ),
    errata=EXCHANGE,
    neighbours=(*as_printed(EXCHANGE), Neighbour("the same inside and outside", {"all_alike": True})),
)
def lemma_e_14(cells: Sequence[CellResult], misprint: str = "", all_alike: bool = False) -> Finding:
    uneven = max(max(cell.result["uneven"], cell.result["apart"] if all_alike else 0.0) for cell in cells)
    unmoved = max(cell.result["unmoved"] for cell in cells)
    numbers: dict[str, float | str] = {
        "largest difference of mean attention within a group": uneven,
        "sign flips and exchanges change it by": unmoved,
    }
    return compared(cells, EXCHANGE, numbers, held=max(uneven, unmoved) < TIGHT, misprint=misprint)
