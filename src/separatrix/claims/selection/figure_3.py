"""Figure 3 of Wang, Wei, Hsu and Lee: W and V of the small run before and after training, which are two of Figure 8's
maps."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import CellResult, Finding, Verdict, claim
from separatrix.claims.selection.figure_8 import figure_8


@claim(
    where="Figure 3",
    says="The heat maps show that the two matrices are random before training, and that after training only the "
    "position block of $W$ and the token block of $V$ are left, both in the direction of the identity.",
    profile="full",
    cells=figure_8.cells,
    neighbours=figure_8.neighbours,
    chosen=figure_8.chosen,
    history=figure_8.history,
)
def figure_3(cells: Sequence[CellResult], truth: str = "cosine_W", query: str = "drawn", most: float = 0.05) -> Finding:
    """Check the last map by the rule of Figure 8, and that before training both cosines to the ground truth are below
    0.2.
    """
    finding = figure_8.check(cells, truth=truth, query=query, most=most)
    start = [cell.result for cell in cells if cell.parameters["query"] == "drawn"]
    leaning = max(abs(result[name][0]) for result in start for name in ("cosine_W", "cosine_V"))
    numbers = {**finding.numbers, "largest |cosine| to the truth before training": leaning}
    if finding.verdict is Verdict.HOLDS and leaning >= 0.2:
        return Finding(
            Verdict.NOT_REPRODUCED, numbers, "A matrix is already aligned with its ground truth before training."
        )
    return Finding(finding.verdict, numbers, finding.note)
