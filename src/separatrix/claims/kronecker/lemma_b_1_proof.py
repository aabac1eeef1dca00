"""The proof of Lemma B.1 of Alman and Song: the blocks of its attention matrix, and indices and sizes around them.

Rows of Q, K_1 and K_2 are counted from 0; the first n belong to vectors, the last n are blanks. Columns of A are pairs
(j_1, j_2) of 2 n keys each, the first index running fastest (Definition 2.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.attention.reference import column_kronecker, tensor_scores
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Erratum, Finding, Rank, claim, typographical
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.lab.registry import experiment

PROOF = (
    Erratum(
        rank=Rank.PROOF,
        shown_by="blocks of A",
        printed="$A$ is partitioned into eight blocks of $n$ rows and $n^2$ neighbouring columns, and the first of "
        "them holds the inner products.",
        right="This is so only after the columns of $A$ are permuted: the pairs of two keys of the first half are "
        "the columns $j_1 + (j_2 - 1) 2 n$ with $j_1$ and $j_2$ up to $n$.",
        why=r"Row $i_1 + (i_2 - 1) 2 n$ of $K_1 \oslash K_2$ has its $i_1$ in the first half for $n$ successive "
        "rows, and then in the second half for the next $n$.",
    ),
    typographical(
        shown_by="index of a pair",
        printed=r"$A_{i, j_1 + (j_2 - 1) n} = \exp(\beta \langle a_i, b_{j_1}, c_{j_2} \rangle / "
        r"\tilde{d})$, in Equations (6) and (7).",
        right=r"$A_{i, j_1 + (j_2 - 1) \tilde{n}}$ with $\tilde{n} = 2 n$.",
        why=r"$K_1$ has $\tilde{n} = 2 n$ rows. (This erratum rests on a single character of the text that we read.)",
    ),
    typographical(
        shown_by="length of the ones",
        printed=r"$D_{i, i} = (A \mathbf{1}_{\tilde{n}})_i$.",
        right=r"$(A \mathbf{1}_{\tilde{n}^2})_i$, as in the line before.",
        why=r"$A$ has $\tilde{n}^2$ columns. (This erratum rests on a single character of the text that we read.)",
    ),
    typographical(
        shown_by="blanks of a query",
        printed=r"The entries of $A_2$, $A_3$, $A_6$, $A_7$ have $\langle a_{j_0}, 0, 1 \rangle$ or $\langle "
        r"a_{j_0}, 1, 0 \rangle$ as their second product.",
        right=r"The second products are $\langle 1, 0, 1 \rangle$ and $\langle 1, 1, 0 \rangle$.",
        why=r"The second half of every row of $Q$ is $\mathbf{1}_d$. The products are zero either way.",
    ),
    typographical(
        shown_by="which epsilon",
        printed=r"In the other case all inner products are at most $(1 - \epsilon_a) t$.",
        right=r"$(1 - \epsilon) t$.",
        why=r"$\epsilon_a$ is the error of attention, $n^{-C_a}$; the gap of Definition 4.6 is $\epsilon$. With "
        r"$\epsilon_a$ the two cases would cover nearly all inputs, and case 2 of the proof uses $\epsilon$.",
    ),
    typographical(
        shown_by="third vector",
        printed=r"Case 1: $\langle a_i, b_{j_1}, b_{j_2} \rangle \ge t$.",
        right=r"$\langle a_i, b_{j_1}, c_{j_2} \rangle \ge t$.",
        why="The third vector is one of the $c$, as in the next line. (This erratum rests on a single character of "
        "the text that we read.)",
    ),
)


@experiment(version=1, name="kronecker.lemma_b1_proof")
def padded(n: int, d: int, beta: float, seed: int) -> dict[str, list[float]]:
    """Return, for each misprint, the pair [printed, corrected] of distances from the explicit matrices."""
    generator = torch.Generator().manual_seed(seed)
    a, b, c = (torch.rand(3, n, d, generator=generator) < 0.7).double()
    ones, zero = torch.ones(n, d, dtype=torch.float64), torch.zeros(n, d, dtype=torch.float64)
    root = beta ** (1 / 3)
    Q = root * torch.cat([torch.cat([a, ones], 1), torch.cat([zero, ones], 1)])
    K1, K2 = (root * torch.cat([torch.cat([x, zero], 1), torch.cat([zero, ones], 1)]) for x in (b, c))
    A = torch.exp(Q @ column_kronecker(K1, K2).mT / (2 * d))
    inner = torch.einsum("ia,ja,la->ilj", a, b, c)  # The first key runs fastest.
    weights = torch.exp(beta * inner / (2 * d)).flatten(1)
    first = torch.tensor([j1 + j2 * 2 * n for j2 in range(n) for j1 in range(n)])
    printed_at = torch.tensor([j1 + j2 * n for j2 in range(n) for j1 in range(n)])
    D = torch.exp(tensor_scores(Q, [K1, K2], 1 / (2 * d))).sum((1, 2))
    halves = {"printed": Q[:n, :d] / root, "right": Q[:n, d:] / root}
    return {
        "blocks of A": [_off(A[:n, : n * n], weights), _off(A[:n][:, first], weights)],
        "index of a pair": [_off(A[:n][:, printed_at], weights), _off(A[:n][:, first], weights)],
        # A vector of n~ ones cannot be multiplied with A; the most lenient reading sums the first n~ columns.
        "length of the ones": [_off(A[:, : 2 * n].sum(1), D), _off(A.sum(1), D)],
        "blanks of a query": [_off(halves[name], ones) for name in ("printed", "right")],
        **_gap(n, beta, d),
        "third vector": [
            _off(torch.exp(beta * torch.einsum("ia,ja,la->ilj", a, b, b) / (2 * d)).flatten(1), A[:n][:, first]),
            _off(weights, A[:n][:, first]),
        ],
    }


def _off(x: torch.Tensor, y: torch.Tensor) -> float:
    return float(((x - y).abs() / y.abs().clamp(min=1.0)).max())


def _gap(n: int, beta: float, d: int) -> dict[str, list[float]]:
    """Return the excess of an output of case 2 over the proof's bound, at inner products (1 - eps_a) t and (1 - eps) t.

    Here t = d / 2, eps = 1/2 and eps_a = n^-2. In units of exp(0.5 beta t / d), an output is exp(-0.5 beta x t / d),
    which the fourth step of the proof bounds by 1 / (16 n^2) for large enough beta.
    """
    enough = 2 * 2 * 2 * math.log(16 * n**2)
    return {"which epsilon": [math.exp(-0.25 * enough * x) * 16 * n**2 - 1 for x in (n**-2.0, 0.5)]}


@claim(
    where="Lemma B.1",
    part="proof",
    says="The proof writes the attention matrix in blocks, bounds its row sums, and distinguishes two cases.",
    cells=cell_grid(padded, {"n d beta": ((2, 4, 3.0), (3, 5, 8.0), (5, 3, 1.0))}),
    errata=PROOF,
    neighbours=as_printed(PROOF),
)
def lemma_b_1_proof(cells: Sequence[CellResult], misprint: str = "") -> Finding:
    """Compare with the explicit matrices, entry by entry."""
    return compared(cells, PROOF, misprint=misprint)
