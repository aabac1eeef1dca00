"""Wrong steps in the proofs of Lemmas E.1, E.2 and F.6, each with the corrected step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from separatrix.claims.ledger import CellResult, Claim, Erratum, Finding, Rank, claim, typographical
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


@experiment(version=1, name="separation.proof_exponents")
def exponents(n: int, a0: str, a1: str, b: str, c: str, seed: int) -> dict[str, list[float]]:
    """Return log_n of the printed and of the corrected expression, minus log_n of the expression that the part needs.

    The computation is deterministic, with b^2 + c^2 = 1.
    """
    A0, A1, B, C = (float(Fraction(x)) for x in (a0, a1, b, c))
    root = math.sqrt(math.log(n))
    needed = B**2 + C**2
    product = (B * root + C * root) * (B * root + C * root) ** 2 / math.log(n)
    squares = ((B * root) ** 2 + (C * root) ** 2) / math.log(n)
    # The weight of j_3 in a row of its class, with two keys.
    weight = n ** (B**2) / (2 * n ** (B**2) + n - 2)
    return {
        "exponent of Part 1b": [abs(product - needed), abs(squares - needed)],
        "bound for Part 4": [A1 - 1 - (B**2 - 1), math.log(weight) / math.log(n) - (B**2 - 1)],
        "bound for Part 3a": [-math.log(1 - A0) / math.log(n) - (A0 - 1), (1 + A0) - 2 - (A0 - 1)],
    }


def _cells() -> Iterator[Cell]:
    settings = (
        (12, "0.05", "1", "11/61", "60/61"),
        (100, "0.01", "1.2", "3/5", "4/5"),
        (2, "0.099", "10", "4/5", "3/5"),
    )
    for n, a0, a1, b, c in settings:
        yield exponents.cell(seed=0, n=n, a0=a0, a1=a1, b=b, c=c)


def _proof(where: str, says: str, erratum: Erratum) -> Claim:
    @claim(
        where=where,
        part="proof",
        says=says,
        cells=_cells,
        errata=(erratum,),
        neighbours=as_printed((erratum,)),
        home=__name__,
    )
    def check(cells: Sequence[CellResult], misprint: str = "") -> Finding:
        return compared(cells, (erratum,), misprint=misprint)

    return check


_proof(
    "Lemma E.1",
    r"Part 1b: with $Q K^\top = I$, $u_{\exp}$ of a key of the same class is $\exp$ of a sum of two squares.",
    typographical(
        shown_by="exponent of Part 1b",
        printed=r"$\exp((b \sqrt{\log n} + c \sqrt{\log n}) (b \sqrt{\log n} + c \sqrt{\log n})^2)$.",
        right=r"$\exp((b \sqrt{\log n})^2 + (c \sqrt{\log n})^2)$.",
        why=r"With $Q K^\top = I$ the exponent is the inner product of two rows. The next line, "
        r"$(b^2 + c^2) \log n$, is right.",
    ),
)
_proof(
    "Lemma E.2",
    r"Part 4: in a row $j_0 \ne j_3$ the weight of key $j_3$ is at most $n^{b^2 - 1}$.",
    Erratum(
        rank=Rank.PROOF,
        shown_by="bound for Part 4",
        printed=r"$f_{\exp}(A, x)_{j_0, j_1} \le 1 / n^{1 - a_1}$, by Part 5 of Lemma E.1.",
        right=r"$\le 1 / n^{1 - b^2}$, by Part 4.",
        why=r"Because $a_1 \ge 1$, the printed bound is at least 1 and gives nothing; and Lemma E.1 has only four "
        "parts.",
    ),
)
_proof(
    "Lemma F.6",
    r"Part 3a: $f_{\exp}(A, x)_{j_2, j_3}$ is at most $n^{1 + a_0} / n^2 = n^{a_0 - 1}$.",
    typographical(
        shown_by="bound for Part 3a",
        printed=r"$n^{1 + a_0} / n^2 \le 1 / (1 - a_0)$.",
        right="$n^{1 + a_0} / n^2 = 1 / n^{1 - a_0}$.",
        why="$1 / (1 - a_0)$ is above 1, and Part 3a needs $n^{a_0 - 1}$.",
    ),
)
