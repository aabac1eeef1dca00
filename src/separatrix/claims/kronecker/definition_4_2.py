"""Definition 4.2 of Alman and Song: from SAT to three-way orthogonal vectors, checked against brute force."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from separatrix.claims.ledger import Finding, Found, Neighbour, claim, holds_if
from separatrix.hardness import attention_decision, maxip, orthogonal_vectors
from separatrix.hardness.cnf import planted_formula, random_formula
from separatrix.hardness.sat import decide_formula
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


@experiment(version=2, name="kronecker.sat_chain")
def chain(variables: int, clauses: int, planted: bool, seed: int) -> dict[str, Any]:
    """A formula of three literals a clause, all 2^v assignments tried, beside every problem of the direct road.

    `below` is, for each a_i, by how much its largest inner product is below m; `answers` is what attention says of it.
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
    made = maxip.to_maxip(vectors)
    gap = orthogonal_vectors.inner_products(made.a, made.b, made.c)
    answers = attention_decision.decide(made).tolist()
    found = decide_formula(formula)
    return {
        "vectors": len(vectors.a),
        "dimension": vectors.dimension,
        "satisfying": int((inner == 0).sum()),
        "triples_that_differ": differ,
        "products_that_differ": int((gap != vectors.dimension - inner).sum()),
        "below": (vectors.dimension - gap.amax((1, 2))).tolist(),
        "answers": answers,
        "answer_is_wrong": int(bool(found) != bool((inner == 0).any())),
    }


def chain_cells() -> Iterator[Cell]:
    for variables, clauses in ((3, 4), (6, 40), (7, 32), (9, 60), (10, 60)):
        for planted in (True, False):
            yield chain.cell(seed=0, variables=variables, clauses=clauses, planted=planted)


def kinds(found: Sequence[Found]) -> str:
    yes = sum(one.result["satisfying"] > 0 for one in found)
    return f"{yes} satisfiable, {len(found) - yes} not"


@claim(
    paper="kronecker",
    where="Definition 4.2",
    says="The problem of three-way orthogonal vectors is defined, with a known reduction: splitting the variables "
    "of a formula in three turns it into an instance whose orthogonal triples are the satisfying assignments.",
    cells=chain_cells,
    neighbours=(Neighbour(r"the sets have at most $2^{\lfloor v/3 \rfloor}$ vectors", {"rounded": math.floor}),),
)
def definition_4_2(found: Sequence[Found], rounded: Callable[[float], int] = math.ceil) -> Finding:
    """Every triple of every formula, against the formula itself."""
    differ = sum(one.result["triples_that_differ"] for one in found)
    wide = sum(one.result["vectors"] > 2 ** rounded(one.parameters["variables"] / 3) for one in found)
    numbers: dict[str, float | str] = {
        "formulas": kinds(found),
        "triples that are not their assignment": differ,
        "sets larger than 2^ceil(v/3)": wide,
    }
    return holds_if(not (differ or wide), numbers)
