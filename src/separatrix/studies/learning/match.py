"""Learning planted triples, for every attention; no pair of tokens is informative about the label.

The expectations were written down before any result of order 3 in these models on matches modulo 11 had been seen; it
was known that order 3 leads in a simpler model (`matching.training`), and that order 2 learns the matches in part with
seed 0. The claim is judged on other seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import CellResult, Finding, claim
from separatrix.studies.learning.runs import (
    AHEAD_OF_PRODUCT,
    TURNED,
    WITH_PRODUCT,
    Expectation,
    ahead_by,
    finding,
    runs,
)

_EXPECTED = (
    Expectation("order 3", "order 2"),
    Expectation("order 3, R = 4", "order 2"),
    Expectation("order 3, R = 4", "order 3, R = 0.5"),
)


@claim(
    where="Does it learn",
    part="triples, every attention",
    says="On planted triples modulo 11 one layer of order-3 heads, unbounded or with $R = 4$, becomes better than "
    "one layer of order 2 at equal parameters and steps, and $R = 4$ becomes better than $R = 0.5$.",
    profile="full",
    cells=lambda: runs("match", [8, 11], steps=800, batch=32, seeds=(1, 2, 3)),
    figures=("learning_curves", "learning_ends", "learning_compute"),
    neighbours=(TURNED, ahead_by(0.3)),
)
def match_all(cells: Sequence[CellResult], turned: bool = False, by: float = 0.0) -> Finding:
    return finding(cells, "accuracy", _EXPECTED, turned=turned, by=by)


match_product = claim(
    where="Does it learn",
    part="triples, product of two order 2",
    says="On planted triples modulo 11 one layer of order 3 becomes better than a product of two order-2 attentions, "
    "at equal parameters and steps and at equal compute.",
    profile="full",
    cells=lambda: runs("match", [8, 11], steps=800, batch=32, seeds=(1, 2, 3), attentions=WITH_PRODUCT),
    figures=("learning_curves", "learning_ends"),
    neighbours=(TURNED, ahead_by(0.3)),
)(lambda cells, turned=False, by=0.0: finding(cells, "accuracy", AHEAD_OF_PRODUCT, turned=turned, by=by))
