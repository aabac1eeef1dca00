"""Appendix F of Wang, Wei, Hsu and Lee: whether sampled encodings have restricted isometry."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Erratum, Finding, Rank, Verdict, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding
from separatrix.selection.isometry import coherence, restricted_isometry


@experiment(version=1, name="selection.sampled_isometry")
def sampled_isometry(T: int, q: int, width: int, threshold: float, seed: int) -> dict[str, float]:
    """Return bounds on the isometry constant of an encoding drawn as in Appendix F."""
    drawn = near_orthogonal_encoding(T, width, threshold=threshold, generator=seed, dtype=torch.float64)
    isometry = restricted_isometry(drawn.E, q)
    return {
        "lower": isometry.lower,
        "upper": isometry.upper,
        "coherence": coherence(drawn.E),
        "rejection_rate": drawn.rejection_rate,
    }


@claim(
    where="Appendix F",
    part="restricted isometry",
    says="Positional encodings sampled by rejection, with $T = 200$ and $d_e = 170$, satisfy the restricted isometry "
    r"and orthogonality property, which Definition 2.3 requires with $\delta < 1/2$ and Theorem 3.3 with $\delta < "
    "1/10$.",
    cells=cell_grid(sampled_isometry, {"threshold": (0.2, 0.25, 0.4)}, T=200, q=3, width=170),
    errata=(
        Erratum(
            printed="A weaker version of the RIP assumption is enforced, by a threshold on dot products; it turns "
            r"out that encodings that are chosen so satisfy the $(q, \delta)$-property.",
            right="They do not, at any threshold at which sampling by rejection succeeds here. The experiments are "
            "outside the hypotheses of the theorems, and succeed nevertheless.",
            why="We exhibit two disjoint sets, of 3 and of 6 positions, whose matrix of dot products has a norm "
            "above $1/2$.",
            rank=Rank.STATEMENT,
            at="Appendix F, positional encoding sampling",
            shown_by="delta is at least 1/2 at every threshold",
        ),
    ),
    alone="The claim fails: the check rejects the printed statement itself.",
)
def sampled(cells: Sequence[CellResult]) -> Finding:
    """Check the lower bounds on delta, each from a pair of sets; a bound above 1/2 refutes Definition 2.3."""
    numbers: dict[str, float | str] = {
        f"delta at threshold {cell.parameters['threshold']:g}, at least": cell.result["lower"] for cell in cells
    }
    refuted = all(cell.result["lower"] >= 0.5 for cell in cells)
    shows = {"delta is at least 1/2 at every threshold": refuted}
    if refuted or all(cell.result["upper"] < 0.5 for cell in cells):
        return holds_if(not refuted, numbers, shows=shows)
    return Finding(Verdict.UNDECIDED, numbers, shows=shows)
