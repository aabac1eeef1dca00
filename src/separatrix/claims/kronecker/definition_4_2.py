"""Definition 4.2 of Alman and Song: from SAT to three-way orthogonal vectors, checked against brute force."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.hardness import attention_decision, maxip, orthogonal_vectors
from separatrix.hardness.cnf import planted_formula, random_formula
from separatrix.hardness.sat import decide_formula
from separatrix.lab.registry import experiment


@experiment(version=2, name="kronecker.sat_chain")
def chain(variables: int, clauses: int, planted: bool, seed: int) -> dict[str, Any]:
    """Reduce a formula with three literals per clause by the direct reduction, and compare with all 2^v assignments.

    For each a_i, `below` is m minus its largest inner product, and `answers` is the decision by attention.
    """
    shape = (variables, clauses, 3, seed)
    formula = planted_formula(*shape)[0] if planted else random_formula(*shape)
    vectors = orthogonal_vectors.to_orthogonal_vectors(formula)
    inner = orthogonal_vectors.inner_products(vectors.a, vectors.b, vectors.c)
    rows_a, rows_b, rows_c = (range(n) for n in vectors.sizes)
    differ = sum(
        formula.holds(orthogonal_vectors.assignment_of(formula, triple)) != (int(inner[triple]) == 0)
        for triple in product(rows_a, rows_b, rows_c)
    )
    instance = maxip.to_maxip(vectors)
    gap = orthogonal_vectors.inner_products(instance.a, instance.b, instance.c)
    answers = attention_decision.decide(instance).tolist()
    decision = decide_formula(formula)
    return {
        "vectors": len(vectors.a),
        "dimension": vectors.dimension,
        "satisfying": int((inner == 0).sum()),
        "triples_that_differ": differ,
        "products_that_differ": int((gap != vectors.dimension - inner).sum()),
        "below": (vectors.dimension - gap.amax((1, 2))).tolist(),
        "answers": answers,
        "answer_is_wrong": int(bool(decision) != bool((inner == 0).any())),
    }


chain_cells = cell_grid(
    chain, {"variables clauses": ((3, 4), (6, 40), (7, 32), (9, 60), (10, 60)), "planted": (True, False)}
)


def kinds(cells: Sequence[CellResult]) -> str:
    yes = sum(cell.result["satisfying"] > 0 for cell in cells)
    return f"{yes} satisfiable, {len(cells) - yes} not"


@claim(
    where="Definition 4.2",
    says="The definition is of the problem of three-way orthogonal vectors, and cites a known reduction: splitting "
    "the variables of a formula in three turns it into an instance whose orthogonal triples are the satisfying "
    "assignments.",
    cells=chain_cells,
    neighbours=(Neighbour(r"the sets have at most $2^{\lfloor v/3 \rfloor}$ vectors", {"rounded": math.floor}),),
)
def definition_4_2(cells: Sequence[CellResult], rounded: Callable[[float], int] = math.ceil) -> Finding:
    """Compare every triple of every instance with the formula."""
    differ = sum(cell.result["triples_that_differ"] for cell in cells)
    wide = sum(cell.result["vectors"] > 2 ** rounded(cell.parameters["variables"] / 3) for cell in cells)
    numbers: dict[str, float | str] = {
        "formulas": kinds(cells),
        "triples that disagree with their assignment": differ,
        "sets larger than 2^ceil(v/3)": wide,
    }
    return holds_if(not (differ or wide), numbers)
