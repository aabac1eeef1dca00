"""Theorem 4.7 of Alman and Song: Gap-MaxIP is hard; how its instances grow, the two cases, and the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import torch

from separatrix.claims.kronecker.hypothesis_4_1 import size_cells
from separatrix.claims.ledger import Erratum, Finding, Found, Neighbour, Rank, Verdict, claim, holds_if
from separatrix.hardness.orthogonal_vectors import OrthogonalVectors, inner_products
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.protocol_vectors import to_gap_maxip
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


@claim(
    paper="kronecker",
    where="Theorem 4.7",
    says="Unless the Strong Exponential Time Hypothesis fails, no algorithm solves Gap-MaxIP with $d$ and $t$ of "
    r"order $\log n$ and $\epsilon = 1/2$ in time $n^{3 - \delta}$, for any $\delta > 0$.",
    cells=size_cells,
    figures=("chain_sizes",),
    alone="The theorem is a lower bound for all algorithms: no program that we could run would tell $n^{3 - "
    r"\delta}$ from $n^{2 - \delta}$.",
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


@experiment(version=1, name="kronecker.protocol_vectors")
def vectors(n: int, m: int, parts: int, seed: int) -> dict[str, int]:
    """The largest inner product over Merlin's words, for each triple of random vectors, by whether it is orthogonal."""
    generator = torch.Generator().manual_seed(seed)
    a, b, c = (torch.rand(3, n, m, generator=generator) < 0.6).long()
    protocol = Protocol(m, parts)
    made = to_gap_maxip(OrthogonalVectors(a, b, c), protocol)
    found = inner_products(made.instance.a, made.instance.b, made.instance.c)
    best = found.unflatten(0, (len(made.words), n)).amax(0)
    orthogonal = inner_products(a, b, c) == 0
    half = protocol.length / 2
    return {
        "orthogonal": int(orthogonal.sum()),
        "others": int((~orthogonal).sum()),
        "orthogonal_below_full": int((best[orthogonal] < protocol.length).sum()),
        "orthogonal_above_half": int((best[orthogonal] > half).sum()),
        "others_above_half": int((best[~orthogonal] > half).sum()),
        "others_below_full": int((best[~orthogonal] < protocol.length).sum()),
        "dimension": made.instance.dimension,
        "full": protocol.length,
    }


@experiment(version=1, name="kronecker.theorem_4_7_time")
def exponents(m: int, c: int, inverse_delta: int, share: int, seed: int) -> dict[str, str]:
    """log2 of the two sides of the last inequality of Theorem 4.7's proof, exact.

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


def _vector_cells() -> Iterator[Cell]:
    for n, m, parts in ((2, 4, 2), (3, 6, 3), (4, 5, 3), (4, 8, 4), (2, 6, 2)):
        yield vectors.cell(seed=0, n=n, m=m, parts=parts)


def _time_cells() -> Iterator[Cell]:
    for c in (2, 10):
        for inverse_delta in (1, 4, 100):
            yield exponents.cell(seed=0, m=1000, c=c, inverse_delta=inverse_delta, share=8)


@claim(
    paper="kronecker",
    where="Theorem 4.7",
    part="cases",
    says="The inner product of the protocol's vectors counts the outcomes of the coins with which Alice accepts, so "
    "its largest value over Merlin's words tells orthogonal triples from the others.",
    cells=_vector_cells,
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
def theorem_4_7_cases(found: Sequence[Found], exchanged: bool = False) -> Finding:
    """The right cases must hold for every triple, and the printed ones fail for some."""
    total = {
        name: sum(one.result[name] for one in found) for name in found[0].result if name not in ("dimension", "full")
    }
    right = total["orthogonal_below_full"] + total["others_above_half"]
    printed = total["orthogonal_above_half"] + total["others_below_full"]
    numbers: dict[str, float | str] = {
        "orthogonal triples": total["orthogonal"],
        "other triples": total["others"],
        "triples against the exchanged cases": right,
        "triples against the printed cases": printed,
    }
    held = not (printed if exchanged else right) and bool(total["orthogonal"] and total["others"])
    return holds_if(held, numbers, shows={"triples contradict the printed cases": printed > 0})


@claim(
    paper="kronecker",
    where="Theorem 4.7",
    part="time",
    says="The last step of the proof shows that the time that orthogonal vectors need is the time that Gap-MaxIP is "
    "claimed to need.",
    cells=_time_cells,
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
def theorem_4_7_time(found: Sequence[Found], sign: str = "plus") -> Finding:
    """Exact rational exponents: with plus and at least it holds, with minus or at most it does not."""
    rows = [{name: Fraction(value) for name, value in one.result.items()} for one in found]
    wrong = sum(row[sign] != row["orthogonal_vectors"] or row["orthogonal_vectors"] < row["claimed"] for row in rows)
    printed = sum(
        row["minus"] != row["orthogonal_vectors"] and row["orthogonal_vectors"] > row["claimed"] for row in rows
    )
    numbers: dict[str, float | str] = {
        "cells against plus and at least": wrong,
        "cells against minus and at most": f"{printed} of {len(rows)}",
    }
    return holds_if(not wrong, numbers, shows={"minus and at most are wrong in every cell": printed == len(rows)})
