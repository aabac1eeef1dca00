"""Theorem 4.7 of Alman and Song: Gap-MaxIP is hard.

The claims are about the sizes of its instances, the two cases, and the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import torch

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.kronecker.hypothesis_4_1 import size_cells
from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, Verdict, claim, holds_if
from separatrix.hardness.orthogonal_vectors import OrthogonalVectors, inner_products
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.protocol_vectors import to_gap_maxip
from separatrix.lab.registry import experiment


@claim(
    where="Theorem 4.7",
    says="Unless the Strong Exponential Time Hypothesis fails, no algorithm solves Gap-MaxIP with $d$ and $t$ of "
    r"order $\log n$ and $\epsilon = 1/2$ in time $n^{3 - \delta}$, for any $\delta > 0$.",
    cells=size_cells,
    figures=("chain_sizes",),
    alone="The theorem is a lower bound for all algorithms: no program that we could run would distinguish $n^{3 - "
    r"\delta}$ from $n^{2 - \delta}$.",
)
def theorem_4_7(cells: Sequence[CellResult]) -> Finding:
    """Compute the sizes of the reduction; another claim checks its two cases."""
    (cell,) = cells
    protocol, every_message = cell.result["protocol_maxip"], cell.result["every_message"]
    shrunk = min(large - small for large, small in zip(every_message, protocol, strict=True))
    numbers: dict[str, float | str] = {
        "variables": f"up to {cell.parameters['variables'][-1]}",
        "log2 of the numbers in Gap-MaxIP by the protocol": protocol[-1],
        "log2 of the numbers in Gap-MaxIP by the direct reduction": cell.result["direct_maxip"][-1],
        "log2 of the dimension with every message indexed": every_message[-1],
        "log2 of the factor saved by indexing only messages that occur, at least": shrunk,
    }
    if shrunk < 0:
        return Finding(Verdict.UNDECIDED, numbers, "Indexing the messages that occur saved nothing.")
    note = (
        "A conditional lower bound cannot be decided by running programs. We ran the reduction at small sizes, and "
        "computed its dimensions at larger ones. Its dimension is N n^2 here, because T = m / 2. For d of order log "
        "n the paper takes a constant T; Merlin's words then take m / T symbols, of log m bits each with "
        "Reed-Solomon codes, which is too many; algebraic-geometry codes avoid this."
    )
    return Finding(Verdict.ILLUSTRATED, numbers, note)


@experiment(version=1, name="kronecker.protocol_vectors")
def vectors(n: int, m: int, parts: int, seed: int) -> dict[str, int]:
    """Return the largest inner product over Merlin's words of each triple of random vectors, orthogonal or not."""
    generator = torch.Generator().manual_seed(seed)
    a, b, c = (torch.rand(3, n, m, generator=generator) < 0.6).long()
    protocol = Protocol(m, parts)
    reduction = to_gap_maxip(OrthogonalVectors(a, b, c), protocol)
    products = inner_products(reduction.instance.a, reduction.instance.b, reduction.instance.c)
    best = products.unflatten(0, (len(reduction.words), n)).amax(0)
    orthogonal = inner_products(a, b, c) == 0
    half = protocol.length / 2
    return {
        "orthogonal": int(orthogonal.sum()),
        "others": int((~orthogonal).sum()),
        "orthogonal_below_full": int((best[orthogonal] < protocol.length).sum()),
        "orthogonal_above_half": int((best[orthogonal] > half).sum()),
        "others_above_half": int((best[~orthogonal] > half).sum()),
        "others_below_full": int((best[~orthogonal] < protocol.length).sum()),
        "dimension": reduction.instance.dimension,
        "full": protocol.length,
    }


@experiment(version=1, name="kronecker.theorem_4_7_time")
def exponents(m: int, c: int, inverse_delta: int, share: int, seed: int) -> dict[str, str]:
    """Return log2 of both sides of the last inequality in the proof of Theorem 4.7, exactly.

    Sets of 2^(m/c) vectors become n = 2^(m/c + kappa m); delta_OV = delta / 2, and kappa = delta / (share c) stands for
    the O(log^2 log(1/eps) / log(1/eps)).
    """
    delta = Fraction(1, inverse_delta)
    kappa = delta / (share * c)
    log_n = Fraction(m, c) + kappa * m
    needed = (3 - delta / 2) * Fraction(m, c)
    return {
        "orthogonal_vectors": str(needed),
        "claimed": str((3 - delta) * log_n),
        "minus": str(3 * log_n - m * (delta / 2 / c - 3 * kappa)),
        "plus": str(3 * log_n - m * (delta / 2 / c + 3 * kappa)),
    }


@claim(
    where="Theorem 4.7",
    part="cases",
    says="The inner product of the protocol's vectors counts the outcomes of the coins with which Alice accepts, so "
    "its largest value over Merlin's words distinguishes orthogonal triples from the others.",
    cells=cell_grid(vectors, {"n m parts": ((2, 4, 2), (3, 6, 3), (4, 5, 3), (4, 8, 4), (2, 6, 2))}),
    errata=(
        Erratum(
            printed=r"If $\alpha, \beta, \gamma$ are orthogonal the inner product is at most $m/2$; otherwise it is "
            r"$m$ for some $\mu$.",
            right=r"If they are orthogonal, the inner product is $m$ for some $\mu$; otherwise it is at most $m/2$ "
            r"for every $\mu$.",
            why="Alice always accepts disjoint sets, and she accepts sets that meet with probability at most $1/2$ "
            "(Theorem 4.5). In the printed text the two cases are exchanged.",
            rank=Rank.PROOF,
            at="Theorem 4.7, proof: the two cases",
            shown_by="triples contradict the printed cases",
        ),
    ),
    neighbours=(Neighbour("the two cases are exchanged, as printed", {"exchanged": True}),),
)
def theorem_4_7_cases(cells: Sequence[CellResult], exchanged: bool = False) -> Finding:
    """Check that the corrected cases hold for every triple, and that some triple contradicts the printed cases."""
    total = {
        name: sum(cell.result[name] for cell in cells) for name in cells[0].result if name not in ("dimension", "full")
    }
    right = total["orthogonal_below_full"] + total["others_above_half"]
    printed = total["orthogonal_above_half"] + total["others_below_full"]
    numbers: dict[str, float | str] = {
        "orthogonal triples": total["orthogonal"],
        "other triples": total["others"],
        "triples that contradict the exchanged cases": right,
        "triples that contradict the printed cases": printed,
    }
    passed = not (printed if exchanged else right) and bool(total["orthogonal"] and total["others"])
    return holds_if(passed, numbers, shows={"triples contradict the printed cases": printed > 0})


@claim(
    where="Theorem 4.7",
    part="time",
    says="The last step of the proof derives the time that Gap-MaxIP is claimed to need from the time that "
    "orthogonal vectors need.",
    cells=cell_grid(exponents, {"c": (2, 10), "inverse_delta": (1, 4, 100)}, m=1000, share=8),
    errata=(
        Erratum(
            printed=r"$(2^{m/c})^{3 - \delta_{\text{OV}}} = n^3 / 2^{m (\delta_{\text{OV}} / c - O(\cdots))} \le "
            r"n^{3 - \delta}$.",
            right=r"$(2^{m/c})^{3 - \delta_{\text{OV}}} = n^3 / 2^{m (\delta_{\text{OV}} / c + O(\cdots))} \ge n^{3 "
            r"- \delta}$.",
            why=r"$n = 2^{m/c} \cdot 2^{O(\cdots) m}$ is larger than $2^{m/c}$, so the $O(\cdots)$ adds to the "
            "divisor; and a lower bound on Gap-MaxIP needs the time of orthogonal vectors to be at least "
            r"$n^{3 - \delta}$.",
            rank=Rank.PROOF,
            at="Theorem 4.7, proof: the last display",
            shown_by="minus and at most are wrong in every cell",
        ),
    ),
    neighbours=(Neighbour(r"the $O(\cdots)$ is subtracted, as printed", {"sign": "minus"}),),
)
def theorem_4_7_time(cells: Sequence[CellResult], sign: str = "plus") -> Finding:
    """Check that the display holds with plus and "at least", and fails with minus or "at most", in exact arithmetic."""
    rows = [{name: Fraction(value) for name, value in cell.result.items()} for cell in cells]
    wrong = sum(row[sign] != row["orthogonal_vectors"] or row["orthogonal_vectors"] < row["claimed"] for row in rows)
    printed = sum(
        row["minus"] != row["orthogonal_vectors"] and row["orthogonal_vectors"] > row["claimed"] for row in rows
    )
    numbers: dict[str, float | str] = {
        "cells that contradict plus and at least": wrong,
        "cells that contradict minus and at most": f"{printed} of {len(rows)}",
    }
    return holds_if(not wrong, numbers, shows={"minus and at most are wrong in every cell": printed == len(rows)})
