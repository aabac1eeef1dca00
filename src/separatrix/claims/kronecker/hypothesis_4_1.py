"""Hypothesis 4.1 of Alman and Song (strong exponential time): the sizes of the reductions from SAT to attention."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim
from separatrix.hardness import attention_decision, maxip, orthogonal_vectors
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.protocol_vectors import protocol_sizes
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

_DENSITY = 4.27
"""Clauses per variable at the satisfiability threshold of random 3-SAT, where instances are hardest."""


@experiment(version=1, name="kronecker.chain_sizes")
def sizes(variables: list[int], seed: int) -> dict[str, list[float]]:
    """Return log2 of the size of each problem of the chain, for v variables and 4.27 v clauses of three literals."""
    rows = [_sizes(v) for v in variables]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _sizes(variables: int) -> dict[str, float]:
    m = math.ceil(_DENSITY * variables)
    n_a, n_b, n_c = (2 ** len(part) for part in orthogonal_vectors.parts(variables))
    total = n_a + n_b + n_c
    direct = attention_decision.attention_sizes(n_a, (n_b, n_c), 3 * m, m - 1, m)
    protocol = Protocol(m, -(-m // 2))
    sizes = protocol_sizes((n_a, n_b, n_c), protocol)
    by_protocol = attention_decision.attention_sizes(
        sizes.rows, (n_b, n_c), sizes.dimension, *maxip.levels(protocol.length, 0.5)
    )
    return {
        "clauses": m,
        "cnf": math.log2(3 * m),
        "orthogonal_vectors": math.log2(total * m),
        "direct_maxip": math.log2(total * 3 * m),
        "direct_work": math.log2(direct.work),
        "protocol_maxip": math.log2((sizes.rows + n_b + n_c) * sizes.dimension),
        "protocol_work": math.log2(by_protocol.work),
        "every_message": sizes.every_message,
        "direct_bound": direct.bound,
        "protocol_bound": by_protocol.bound,
    }


def size_cells() -> Iterator[Cell]:
    yield sizes.cell(seed=0, variables=list(range(6, 61, 6)))


FEWER = Neighbour(
    "the chain costs $2^{0.9 v}$ times a polynomial, which would refute the hypothesis", {"exponent": 0.9}
)


def conditional(cells: Sequence[CellResult], note: str, exponent: float) -> Finding:
    """Return *illustrated* if the chain takes at most 16 m 2^(exponent v) multiplications."""
    (cell,) = cells
    v, work = cell.parameters["variables"], cell.result["direct_work"]
    rows = list(zip(v, work, cell.result["clauses"], strict=True))
    beyond = sum(bits > exponent * variables + math.log2(16 * clauses) for variables, bits, clauses in rows)
    numbers: dict[str, float | str] = {
        "formulas that take more than 16 m 2^v multiplications": f"{beyond} of {len(rows)}",
        "variables, at most": v[-1],
        "log2 of the multiplications there": work[-1],
    }
    if beyond:
        return Finding(Verdict.UNDECIDED, numbers, "The chain takes more than 2^v times a polynomial.")
    return Finding(Verdict.ILLUSTRATED, numbers, note)


@claim(
    where="Hypothesis 4.1",
    says=r"The Strong Exponential Time Hypothesis says that for every $\epsilon > 0$ there is a $k$ such that "
    r"$k$-SAT takes more than $2^{(1 - \epsilon) v}$ time.",
    cells=size_cells,
    figures=("chain_sizes",),
    neighbours=(FEWER,),
)
def hypothesis_4_1(cells: Sequence[CellResult], exponent: float = 1.0) -> Finding:
    """Compute the cost of the chain, which is 2^v times a polynomial."""
    return conditional(
        cells,
        "This is a hypothesis about all algorithms, which no program can decide. We computed the sizes of the chain "
        "from SAT to attention: its work is 2^v times a polynomial, as is the work of trying all assignments.",
        exponent,
    )
