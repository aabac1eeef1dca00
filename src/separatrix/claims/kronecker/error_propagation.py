"""Section D of Alman and Song: how large scores are, and how an error in A reaches D and the output (D.3, D.5, D.6).

Matrices have integer entries and every comparison is one of integers or fractions: nothing is rounded, and "at most"
means at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from separatrix.attention.reference import column_kronecker, tensor_scores
from separatrix.claims.ledger import Erratum, Finding, Found, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

_EPSILONS = (1, 10, 50, 99)
"""Thousandths: the lemmas ask for an epsilon in (0, 0.1)."""


def _uniform(generator: torch.Generator, largest: int, *shape: int) -> Tensor:
    return torch.randint(-largest, largest + 1, shape, generator=generator)


@experiment(version=1, name="kronecker.lemma_d3")
def largest_score(
    n: int, d: int, bound: int, entries: Literal["uniform", "corners", "aligned"], seed: int
) -> dict[str, float | int]:
    """Lemma D.3: the largest |<Q_i, K_1j, K_2l>| over d B^3, of integer matrices with entries up to B = `bound`."""
    generator = torch.Generator().manual_seed(seed)
    matrices = [_uniform(generator, bound, n, d) for _ in range(3)]
    if entries == "corners":
        matrices = [torch.where(x >= 0, bound, -bound) for x in matrices]
    elif entries == "aligned":
        matrices = [torch.full_like(x, bound) for x in matrices]
    Q, K1, K2 = matrices
    T = tensor_scores(Q, [K1, K2], 1)
    largest = int(T.abs().max())
    return {
        "entries": T.numel(),
        "violations": int((T.abs() > d * bound**3).sum()),
        "largest": largest / d,
        "ratio": largest / (d * bound**3),
    }


def _score_cells() -> Iterator[Cell]:
    for bound in (1, 2, 4, 8, 16, 64):
        for d in (1, 3, 8):
            for entries in ("uniform", "corners", "aligned"):
                yield largest_score.cell(seed=0, n=12, d=d, bound=bound, entries=entries)


@claim(
    paper="kronecker",
    where="Lemma D.3",
    says="If no entry of Q, K_1 and K_2 exceeds B >= 1 in magnitude, no score <q, k_1, k_2> / d exceeds B^3.",
    cells=_score_cells,
    figures=("score_bound",),
)
def lemma_d3(found: Sequence[Found]) -> Finding:
    violations = sum(one.result["violations"] for one in found)
    tight = max(one.result["ratio"] for one in found)
    return Finding(
        Verdict.FAILS_AS_PRINTED if violations else Verdict.HOLDS,
        {
            "scores compared": sum(one.result["entries"] for one in found),
            "scores above B^3": violations,
            "largest score / B^3": tight,
        },
        note="Equality is reached, so no smaller power of B would do." if tight == 1 else "",
    )


@experiment(version=1, name="kronecker.lemma_d5")
def denominators(n: int, thousandths: int, errors: Literal["random", "aligned"], seed: int) -> dict[str, float | int]:
    """Lemma D.5: the largest |D~ - D| / (eps_A D), for relative errors of A up to eps_A = `thousandths` / 1000."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(1, 1001, (n, n * n), generator=generator)
    # A = 1000 a, so that an error of eps_A A is the integer thousandths * a.
    limit = thousandths * a
    share = torch.rand(n, n * n, generator=generator, dtype=torch.float64)
    error = limit if errors == "aligned" else (share * (2 * limit + 1)).long() - limit
    off, allowed = error.sum(1).abs(), limit.sum(1)
    return {"violations": int((off > allowed).sum()), "ratio": float((off / allowed).max()), "rows": n}


def _denominator_cells() -> Iterator[Cell]:
    for thousandths in _EPSILONS:
        for n in (1, 4, 20):
            for errors in ("random", "aligned"):
                yield denominators.cell(seed=0, n=n, thousandths=thousandths, errors=errors)


@claim(
    paper="kronecker",
    where="Lemma D.5",
    says="If every entry of a positive A is known to a relative eps_A, so is every row sum.",
    cells=_denominator_cells,
    figures=("denominator_error",),
)
def lemma_d5(found: Sequence[Found]) -> Finding:
    violations = sum(one.result["violations"] for one in found)
    return Finding(
        Verdict.FAILS_AS_PRINTED if violations else Verdict.HOLDS,
        {
            "rows compared": sum(one.result["rows"] for one in found),
            "rows beyond the bound": violations,
            "largest error / bound": max(one.result["ratio"] for one in found),
        },
    )


@experiment(version=1, name="kronecker.lemma_d6")
def outputs(
    n: int,
    d: int,
    bound: int,
    thousandths: int,
    normaliser: Literal["row sums", "row sums, worst errors", "within eps_D", "unrelated"],
    seed: int,
) -> dict[str, float | int]:
    """Lemma D.6: the largest |D~^-1 A~ V - D^-1 A V| over (eps_A + eps_D) B^2, eps_A = eps_D = `thousandths` / 1000.

    The first two kinds have D = diag(A 1) and D~ = diag(A~ 1). "within eps_D" keeps the former, and takes for D~ what
    the lemma allows at worst, (1 - eps_D) D. In "unrelated" D is a sixteenth of A's row sums, which the lemma allows.
    """
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(1, 1001, (n, n * n), generator=generator)
    V = column_kronecker(*(_uniform(generator, bound, n, d) for _ in range(2)))
    limit = thousandths * a
    if normaliser == "row sums":
        share = torch.rand(n, n * n, generator=generator, dtype=torch.float64)
        A_tilde = 1000 * a + (share * (2 * limit + 1)).long() - limit
    elif normaliser == "row sums, worst errors":
        # Where the first column of V = +-B^2 is positive the weight grows, elsewhere it falls.
        V = torch.where(V >= 0, bound**2, -(bound**2))
        A_tilde = 1000 * a + limit * V[:, 0].sign()
    else:
        V = torch.full_like(V, bound**2)
        A_tilde = 1000 * a + limit
    D = [Fraction(x) for x in (1000 * a).sum(1).tolist()]
    D_tilde = [Fraction(x) for x in A_tilde.sum(1).tolist()]
    if normaliser == "unrelated":
        D = [x / 16 for x in D]
    if normaliser in ("within eps_D", "unrelated"):
        D_tilde = [x * (1 - Fraction(thousandths, 1000)) for x in D]
    N, N_tilde = (1000 * a @ V).tolist(), (A_tilde @ V).tolist()
    largest = max(abs(N_tilde[i][j] / D_tilde[i] - N[i][j] / D[i]) for i in range(n) for j in range(d))
    ratio = largest / (2 * Fraction(thousandths, 1000) * bound**2)
    return {"violated": int(ratio > 1), "ratio": float(ratio), "epsilon": thousandths / 1000}


def _output_cells() -> Iterator[Cell]:
    for thousandths in _EPSILONS:
        for normaliser in ("row sums", "row sums, worst errors", "within eps_D", "unrelated"):
            for n, d, bound in ((2, 1, 2), (6, 3, 2), (10, 4, 5)):
                yield outputs.cell(seed=0, n=n, d=d, bound=bound, thousandths=thousandths, normaliser=normaliser)


@claim(
    paper="kronecker",
    where="Lemma D.6",
    says="Relative errors eps_A of the weights and eps_D of the denominators move no entry of the output by more than "
    "(eps_A + eps_D) B^2.",
    cells=_output_cells,
    figures=("output_error",),
    errata=(
        Erratum(
            printed="D and D~ are any positive diagonal matrices with |D~ - D| <= eps_D D.",
            right="D = diag(A 1) and D~ = diag(A~ 1), as in Lemma D.5.",
            why="The proof uses that the rows of D~^-1 A~ and of D^-1 A sum to one. Without the first, "
            "A~ = (1 + eps_A) A and D~ = (1 - eps_D) D exceed the bound by the factor 1 / (1 - eps_D); without the "
            "second, by any.",
        ),
    ),
)
def lemma_d6(found: Sequence[Found]) -> Finding:
    """Holds with row sums; as printed it must not, or there is no erratum to report."""
    tied = [one.result for one in found if str(one.parameters["normaliser"]).startswith("row sums")]
    free = [one.result for one in found if not str(one.parameters["normaliser"]).startswith("row sums")]
    numbers: dict[str, float | str] = {
        "largest error / bound, D and D~ row sums": max(one["ratio"] for one in tied),
        "largest error / bound, as printed": max(one["ratio"] for one in free),
        "cells beyond the bound, D and D~ row sums": sum(one["violated"] for one in tied),
        "cells beyond the bound, as printed": sum(one["violated"] for one in free),
    }
    if any(one["violated"] for one in tied):
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    if any(one["violated"] for one in free):
        return Finding(Verdict.HOLDS_CORRECTED, numbers)
    return Finding(Verdict.HOLDS, numbers)
