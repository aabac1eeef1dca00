"""Definition 4.6 of Alman and Song: Gap-MaxIP, reached from orthogonal vectors and decided by attention."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.kronecker.definition_4_2 import chain_cells, kinds
from separatrix.claims.ledger import Finding, Found, claim, holds_if


@claim(
    paper="kronecker",
    where="Definition 4.6",
    says="Gap-MaxIP: for each a_i, tell a triple of inner product at least t from all at most (1 - eps) t. Orthogonal "
    "vectors reach it directly too, with 3 m coordinates, t = m and eps = 1/m, and attention decides it.",
    cells=chain_cells,
)
def definition_4_6(found: Sequence[Found]) -> Finding:
    """The direct road must keep the promise, and one call of attention must decide every row."""
    sums = {
        name: sum(one.result[name] for one in found)
        for name in ("products_that_differ", "rows_in_neither_case", "rows_decided_wrongly", "answer_is_wrong")
    }
    numbers: dict[str, float | str] = {
        "formulas": kinds(found),
        "inner products that are not m - <a, b, c>": sums["products_that_differ"],
        "rows in neither case": sums["rows_in_neither_case"],
        "rows that attention decides wrongly": sums["rows_decided_wrongly"],
        "formulas decided wrongly": sums["answer_is_wrong"],
    }
    return holds_if(not any(sums.values()), numbers)
