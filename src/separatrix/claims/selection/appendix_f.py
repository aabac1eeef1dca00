"""Appendix F of Wang, Wei, Hsu and Lee: whether sampled encodings have restricted isometry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from separatrix.claims.ledger import Erratum, Finding, Found, Rank, Verdict, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding
from separatrix.selection.isometry import coherence, restricted_isometry


@experiment(version=1, name="selection.sampled_isometry")
def sampled_isometry(T: int, q: int, width: int, threshold: float, seed: int) -> dict[str, float]:
    """The isometry constant of an encoding drawn as in Appendix F, bracketed."""
    drawn = near_orthogonal_encoding(T, width, threshold=threshold, generator=seed, dtype=torch.float64)
    found = restricted_isometry(drawn.E, q)
    return {
        "lower": found.lower,
        "upper": found.upper,
        "coherence": coherence(drawn.E),
        "rejection_rate": drawn.rejection_rate,
    }


def _sampled_cells() -> Iterator[Cell]:
    for threshold in (0.2, 0.25, 0.4):
        yield sampled_isometry.cell(seed=0, T=200, q=3, width=170, threshold=threshold)


@claim(
    paper="selection",
    where="Appendix F",
    part="restricted isometry",
    says="Positional encodings sampled by rejection, with $T = 200$ and $d_e = 170$, satisfy the restricted "
    r"isometry and orthogonality property, which Definition 2.3 asks for with $\delta < 1/2$ and Theorem 3.3 with "
    r"$\delta < 1/10$.",
    cells=_sampled_cells,
    errata=(
        Erratum(
            printed="Encodings that are chosen by a threshold on their dot products satisfy the $(q, "
            r"\delta)$-property.",
            right="They do not, at any threshold at which sampling by rejection succeeds here. The experiments lie "
            "outside the hypothesis of the theorems, and work all the same.",
            why="We exhibit two disjoint sets, of 3 and of 6 positions, whose matrix of dot products has a norm "
            "above $1/2$.",
            rank=Rank.STATEMENT,
            at="Appendix F, positional encoding sampling",
            shown_by="delta is at least 1/2 at every threshold",
        ),
    ),
    alone="The claim fails: the check rejects the printed statement itself.",
)
def sampled(found: Sequence[Found]) -> Finding:
    """A lower bound on delta is a pair of sets; above 1/2 the property of Definition 2.3 is refuted."""
    numbers: dict[str, float | str] = {
        f"delta at threshold {one.parameters['threshold']:g}, at least": one.result["lower"] for one in found
    }
    refuted = all(one.result["lower"] >= 0.5 for one in found)
    shows = {"delta is at least 1/2 at every threshold": refuted}
    if refuted or all(one.result["upper"] < 0.5 for one in found):
        return holds_if(not refuted, numbers, shows=shows)
    return Finding(Verdict.UNDECIDED, numbers, shows=shows)
