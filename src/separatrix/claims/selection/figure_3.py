"""Figure 3 of Wang, Wei, Hsu and Lee: W and V of the small run before training and after, two of Figure 8's maps."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Finding, Found, Verdict, claim
from separatrix.claims.selection.figure_8 import figure_8


@claim(
    paper="selection",
    where="Figure 3",
    says="The heat maps show that the two matrices are random before training, and that after training only the "
    "position block of $W$ and the token block of $V$ are left, both in the direction of the identity.",
    profile="full",
    cells=figure_8.cells,
    neighbours=figure_8.neighbours,
    chosen=figure_8.chosen,
    history=figure_8.history,
)
def figure_3(found: Sequence[Found], truth: str = "cosine_W", query: str = "drawn", most: float = 0.05) -> Finding:
    """The last map by the rule of Figure 8; and at the start neither matrix leans to its ground truth, by 0.2."""
    finding = figure_8.check(found, truth=truth, query=query, most=most)
    start = [one.result for one in found if one.parameters["query"] == "drawn"]
    leaning = max(abs(result[name][0]) for result in start for name in ("cosine_W", "cosine_V"))
    numbers = {**finding.numbers, "largest |cosine| to the truth before training": leaning}
    if finding.verdict is Verdict.HOLDS and leaning >= 0.2:
        return Finding(Verdict.NOT_REPRODUCED, numbers, "A matrix leans to its ground truth before training.")
    return Finding(finding.verdict, numbers, finding.note)
