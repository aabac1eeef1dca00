"""Section 4 of Alman and Song: from SAT to orthogonal vectors to Gap-MaxIP, every step checked against brute force."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from separatrix.claims.ledger import Finding, Found, Verdict, claim
from separatrix.hardness import attention_decision, maxip, orthogonal_vectors
from separatrix.hardness.cnf import planted_formula, random_formula
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.protocol_vectors import protocol_sizes
from separatrix.hardness.sat import decide_formula
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

_DENSITY = 4.27
"""Clauses a variable at which random 3-SAT turns from satisfiable to not: the hardest."""


@experiment(version=1, name="kronecker.sat_chain")
def chain(variables: int, clauses: int, planted: bool, seed: int) -> dict[str, int]:
    """A formula of three literals a clause, all 2^v assignments tried, beside every problem of the direct road."""
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
    cases = maxip.gap_maxip(made)
    found = decide_formula(formula)
    return {
        "vectors": len(vectors.a),
        "dimension": vectors.dimension,
        "satisfying": int((inner == 0).sum()),
        "triples_that_differ": differ,
        "products_that_differ": int((gap != vectors.dimension - inner).sum()),
        "rows_in_neither_case": cases.count(None),
        "rows_decided_wrongly": sum(one != case for one, case in zip(answers, cases, strict=True) if case is not None),
        "answer_is_wrong": int(bool(found) != bool((inner == 0).any())),
    }


@experiment(version=1, name="kronecker.chain_sizes")
def sizes(variables: list[int], seed: int) -> dict[str, list[float]]:
    """Numbers in each problem of the chain, log2, for v variables and 4.27 v clauses of three literals."""
    rows = [_sizes(v) for v in variables]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _sizes(variables: int) -> dict[str, float]:
    m = math.ceil(_DENSITY * variables)
    n_a, n_b, n_c = (2 ** len(part) for part in orthogonal_vectors.parts(variables))
    total = n_a + n_b + n_c
    direct = attention_decision.attention_sizes(n_a, (n_b, n_c), 3 * m, m - 1, m)
    protocol = Protocol(m, -(-m // 2))
    made = protocol_sizes((n_a, n_b, n_c), protocol)
    by_protocol = attention_decision.attention_sizes(
        made.rows, (n_b, n_c), made.dimension, *maxip.levels(protocol.length, 0.5)
    )
    return {
        "clauses": m,
        "cnf": math.log2(3 * m),
        "orthogonal_vectors": math.log2(total * m),
        "direct_maxip": math.log2(total * 3 * m),
        "direct_work": math.log2(direct.work),
        "protocol_maxip": math.log2((made.rows + n_b + n_c) * made.dimension),
        "protocol_work": math.log2(by_protocol.work),
        "every_message": made.every_message,
        "direct_bound": direct.bound,
        "protocol_bound": by_protocol.bound,
    }


def _chain_cells() -> Iterator[Cell]:
    for variables, clauses in ((3, 4), (6, 40), (7, 32), (9, 60), (10, 60)):
        for planted in (True, False):
            yield chain.cell(seed=0, variables=variables, clauses=clauses, planted=planted)


def _size_cells() -> Iterator[Cell]:
    yield sizes.cell(seed=0, variables=list(range(6, 61, 6)))


def _kinds(found: Sequence[Found]) -> str:
    yes = sum(one.result["satisfying"] > 0 for one in found)
    return f"{yes} satisfiable, {len(found) - yes} not"


@claim(
    paper="kronecker",
    where="Definition 4.2",
    says="Three-way orthogonal vectors, and what is known of it: splitting the variables in three turns a formula into "
    "an instance whose orthogonal triples are its satisfying assignments.",
    cells=_chain_cells,
)
def definition_4_2(found: Sequence[Found]) -> Finding:
    """Every triple of every formula, against the formula itself."""
    differ = sum(one.result["triples_that_differ"] for one in found)
    wide = sum(one.result["vectors"] > 2 ** math.ceil(one.parameters["variables"] / 3) for one in found)
    numbers: dict[str, float | str] = {
        "formulas": _kinds(found),
        "triples that are not their assignment": differ,
        "sets larger than 2^ceil(v/3)": wide,
    }
    return Finding(Verdict.FAILS_AS_PRINTED if differ or wide else Verdict.HOLDS, numbers)


@claim(
    paper="kronecker",
    where="Definition 4.6",
    says="Gap-MaxIP: for each a_i, tell a triple of inner product at least t from all at most (1 - eps) t. Orthogonal "
    "vectors reach it directly too, with 3 m coordinates, t = m and eps = 1/m, and attention decides it.",
    cells=_chain_cells,
)
def definition_4_6(found: Sequence[Found]) -> Finding:
    """The direct road must keep the promise, and one call of attention must decide every row."""
    sums = {
        name: sum(one.result[name] for one in found)
        for name in ("products_that_differ", "rows_in_neither_case", "rows_decided_wrongly", "answer_is_wrong")
    }
    numbers: dict[str, float | str] = {
        "formulas": _kinds(found),
        "inner products that are not m - <a, b, c>": sums["products_that_differ"],
        "rows in neither case": sums["rows_in_neither_case"],
        "rows that attention decides wrongly": sums["rows_decided_wrongly"],
        "formulas decided wrongly": sums["answer_is_wrong"],
    }
    return Finding(Verdict.FAILS_AS_PRINTED if any(sums.values()) else Verdict.HOLDS, numbers)


def _conditional(found: Sequence[Found], note: str) -> Finding:
    (one,) = found
    v, work = one.parameters["variables"], one.result["direct_work"]
    rows = list(zip(v, work, one.result["clauses"], strict=True))
    beyond = sum(bits > variables + math.log2(16 * clauses) for variables, bits, clauses in rows)
    numbers: dict[str, float | str] = {
        "formulas that take more than 16 m 2^v multiplications": f"{beyond} of {len(rows)}",
        "variables, at most": v[-1],
        "log2 of the multiplications there": work[-1],
    }
    if beyond:
        return Finding(Verdict.UNDECIDED, numbers, "The chain takes more than 2^v times a polynomial.")
    return Finding(Verdict.ILLUSTRATED, numbers, note)


@claim(
    paper="kronecker",
    where="Hypothesis 4.1",
    says="The Strong Exponential Time Hypothesis: for every eps > 0 some k-SAT takes more than 2^((1 - eps) v) time.",
    cells=_size_cells,
    figures=("chain_sizes",),
)
def hypothesis_4_1(found: Sequence[Found]) -> Finding:
    """A hypothesis; what a program shows is what the chain costs, 2^v times a polynomial."""
    return _conditional(
        found,
        "A hypothesis about all algorithms: no program decides it. What ran: the sizes of the chain from SAT to "
        "attention, whose work is 2^v times a polynomial, as that of trying all assignments.",
    )


@claim(
    paper="kronecker",
    where="Conjecture 4.3",
    says="Three-way orthogonal vectors of dimension c log n take time n^(3 - eps) for no eps > 0, with c depending on "
    "eps; the Strong Exponential Time Hypothesis implies it.",
    cells=_size_cells,
    figures=("chain_sizes",),
)
def conjecture_4_3(found: Sequence[Found]) -> Finding:
    """A conjecture; the implication is the reduction of Definition 4.2, with n = 2^(v/3) and dimension 4.27 v."""
    return _conditional(
        found,
        "A conjecture about all algorithms. What ran: the reduction that gives the implication, with n = 2^(v/3) "
        "vectors of dimension 4.27 v = 18.5 ln n. (For k-SAT of many clauses the reduction is preceded by "
        "sparsification, which is not run.)",
    )


@claim(
    paper="kronecker",
    where="Theorem 4.7",
    says="Unless the Strong Exponential Time Hypothesis fails, Gap-MaxIP with d and t of order log n and eps = 1/2 "
    "takes time n^(3 - delta) for no delta > 0.",
    cells=_size_cells,
    figures=("chain_sizes",),
)
def theorem_4_7(found: Sequence[Found]) -> Finding:
    """Illustrated by the reduction itself: its cases are checked apart, here is how it grows."""
    (one,) = found
    made, every = one.result["protocol_maxip"], one.result["every_message"]
    shrunk = min(large - small for large, small in zip(every, made, strict=True))
    numbers: dict[str, float | str] = {
        "variables": f"up to {one.parameters['variables'][-1]}",
        "log2 of the numbers in Gap-MaxIP by the protocol": made[-1],
        "log2 of them by the direct road": one.result["direct_maxip"][-1],
        "log2 of the dimension with every message indexed": every[-1],
        "log2 saved by indexing only those that occur, at least": shrunk,
    }
    if shrunk < 0:
        return Finding(Verdict.UNDECIDED, numbers, "Indexing the messages that occur saved nothing.")
    note = (
        "A conditional lower bound cannot be decided by running. What ran: the reduction at small sizes, and its sizes "
        "beyond. Its dimension is N n^2 here, because T = m / 2. For d of order log n the paper takes a constant T; "
        "Merlin's words then take m / T symbols, of log m bits each with Reed-Solomon codes, which is too many: that "
        "is what algebraic-geometry codes are for."
    )
    return Finding(Verdict.ILLUSTRATED, numbers, note)
