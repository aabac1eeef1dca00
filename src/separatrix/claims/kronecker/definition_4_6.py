"""Definition 4.6 of Alman and Song: Gap-MaxIP, reached from orthogonal vectors and decided by attention."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.kronecker.definition_4_2 import chain_cells, kinds
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if


@claim(
    where="Definition 4.6",
    says="The problem Gap-MaxIP is to decide, for each $a_i$, whether some triple has an inner product of at least "
    r"$t$ or all have at most $(1 - \epsilon) t$. Orthogonal vectors can also be reduced to it directly, with $3 m$ "
    r"coordinates, $t = m$ and $\epsilon = 1/m$, and attention decides it.",
    cells=chain_cells,
    neighbours=(Neighbour(r"$\epsilon = 2/m$", {"apart": 2}),),
)
def definition_4_6(cells: Sequence[CellResult], apart: int = 1) -> Finding:
    """Check that the direct reduction keeps the promise with eps = apart / m, and that attention decides every row.

    A row is in the first case if its largest inner product is m, in the second if it is at most m - apart.
    """
    rows = [row for cell in cells for row in zip(cell.result["below"], cell.result["answers"], strict=True)]
    sums = {name: sum(cell.result[name] for cell in cells) for name in ("products_that_differ", "answer_is_wrong")}
    sums["rows_in_neither_case"] = sum(0 < below < apart for below, _ in rows)
    sums["rows_decided_wrongly"] = sum(bool(answer) != (below == 0) for below, answer in rows)
    numbers: dict[str, float | str] = {
        "formulas": kinds(cells),
        "inner products that differ from m - <a, b, c>": sums["products_that_differ"],
        "rows in neither case": sums["rows_in_neither_case"],
        "rows that attention decides wrongly": sums["rows_decided_wrongly"],
        "formulas decided wrongly": sums["answer_is_wrong"],
    }
    return holds_if(not any(sums.values()), numbers)
