"""Definitions 1.1 and 1.2 of Alman and Song: attention of order 3, and the problem of approximating it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

import separatrix as sx
from separatrix.claims.kronecker.lemma_e_2 import inputs
from separatrix.claims.ledger import Finding, Found, Neighbour, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.definition_1_1")
def entry_by_entry(n: int, d: int, B: float, tolerance: float, corner: bool, seed: int) -> dict[str, float]:
    """Definition 1.1 in loops over its indices, against the library; and variants of it that are not it.

    `undivided` has no division by d, `dotted` multiplies two dot products in the place of the triple product, `swapped`
    has V_2 (x) V_1 for V_1 (x) V_2, `bare` leaves D out.
    """
    Q, K1, K2, V1, V2 = inputs(n, d, B, corner, 5, seed)
    out = {name: torch.zeros(n, d, dtype=torch.float64) for name in ("it", "undivided", "dotted", "swapped", "bare")}
    for i in range(n):
        sums = dict.fromkeys(out, 0.0)
        for j1 in range(n):
            for j2 in range(n):
                triple = sum(float(Q[i, a] * K1[j1, a] * K2[j2, a]) for a in range(d))
                dots = float(Q[i] @ K1[j1]) * float(Q[i] @ K2[j2])
                weights = {"it": math.exp(triple / d), "undivided": math.exp(triple), "dotted": math.exp(dots / d)}
                weights |= {"swapped": weights["it"], "bare": weights["it"]}
                for name, weight in weights.items():
                    value = V2[j1] * V1[j2] if name == "swapped" else V1[j1] * V2[j2]
                    out[name][i] += weight * value
                    sums[name] += weight
        for name in out:
            out[name][i] /= sums[name] if name != "bare" else 1.0
    exact = sx.tensor_attention(Q, [K1, K2], [V1, V2])
    certified = sx.certified_attention(Q, [K1, K2], [V1, V2], tolerance=tolerance)
    return {
        **{name: float((exact - made).abs().max()) for name, made in out.items()},
        "approximate": float((certified.output - out["it"]).abs().max()),
        "certificate": certified.certificate.total,
        "largest": float(max(x.abs().max() for x in (Q, K1, K2, V1, V2))),
    }


def _cells() -> Iterator[Cell]:
    for n, d, B, corner in (
        (1, 1, 1.0, False),
        (2, 3, 0.5, False),
        (5, 2, 1.5, True),
        (6, 3, 2.0, False),
        (4, 1, 2.5, True),
    ):
        yield entry_by_entry.cell(seed=0, n=n, d=d, B=B, tolerance=1e-4, corner=corner)


@claim(
    paper="kronecker",
    where="Definition 1.1",
    says=r"Attention of order 3 has $n^2$ weights for each query, in proportion to $\exp$ of the mean product of "
    "three entries, and averages the rows of the column-wise Kronecker product of two value sets with them.",
    cells=_cells,
    defines=("separatrix.tensor_attention", "separatrix.attention.reference.tensor_attention"),
    neighbours=(
        Neighbour("without the division by $d$", {"formula": "undivided"}),
        Neighbour("with the product of two dot products as the score", {"formula": "dotted"}),
        Neighbour(r"with $V_2 \otimes V_1$", {"formula": "swapped"}),
        Neighbour("without $D$", {"formula": "bare"}),
    ),
)
def definition_1_1(found: Sequence[Found], formula: str = "it") -> Finding:
    """Loops over all indices against the library's attention."""
    worst = max(one.result[formula] for one in found)
    return holds_if(worst <= 1e-12, {"largest difference from the loops": worst})


@claim(
    paper="kronecker",
    where="Definition 1.2",
    says=r"The problem $\operatorname{ATAttC}(n, d, B, \epsilon_a)$ is to find, for five matrices with entries up to "
    r"$B$, a matrix whose every entry is within $\epsilon_a$ of attention of order 3.",
    cells=_cells,
    defines=("separatrix.certified_attention",),
    neighbours=(
        Neighbour("the entries are bounded by $B / 2$", {"bound": 0.5}),
        Neighbour("the error is that of attention without the division by $d$", {"to": "undivided"}),
    ),
)
def definition_1_2(found: Sequence[Found], bound: float = 1.0, to: str = "it") -> Finding:
    """The library's approximation must be within its tolerance of the loops, on inputs that reach the bound B."""
    late = sum(
        (one.result["approximate"] if to == "it" else one.result[to]) > one.parameters["tolerance"] for one in found
    )
    beyond = sum(one.result["certificate"] > one.parameters["tolerance"] for one in found)
    reach = max(one.result["largest"] / one.parameters["B"] for one in found)
    numbers: dict[str, float | str] = {
        "inputs": len(found),
        "inputs with an error above eps_a": late,
        "inputs with a certificate above eps_a": beyond,
        "largest entry / B": reach,
    }
    return holds_if(not late and not beyond and reach <= bound * (1 + 1e-12), numbers)
