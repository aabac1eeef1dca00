"""Definitions 1.1 and 1.2 of Alman and Song: attention of order 3, and the problem of approximating it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

import separatrix as sx
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.kronecker.lemma_e_2 import inputs
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.definition_1_1")
def entry_by_entry(n: int, d: int, B: float, tolerance: float, corner: bool, seed: int) -> dict[str, float]:
    """Compare the library with Definition 1.1 in loops over its indices, and with wrong variants of it.

    `undivided` omits the division by d, `dotted` replaces the triple product by a product of two dot products,
    `swapped` replaces V_1 (x) V_2 by V_2 (x) V_1, and `bare` omits D.
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
        **{name: float((exact - output).abs().max()) for name, output in out.items()},
        "approximate": float((certified.output - out["it"]).abs().max()),
        "certificate": certified.certificate.total,
        "largest": float(max(x.abs().max() for x in (Q, K1, K2, V1, V2))),
    }


_cells = cell_grid(
    entry_by_entry,
    {
        "n d B corner": (
            (1, 1, 1.0, False),
            (2, 3, 0.5, False),
            (5, 2, 1.5, True),
            (6, 3, 2.0, False),
            (4, 1, 2.5, True),
        )
    },
    tolerance=1e-4,
)


@claim(
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
def definition_1_1(cells: Sequence[CellResult], formula: str = "it") -> Finding:
    """Compare the library's attention with loops over all indices."""
    worst = max(cell.result[formula] for cell in cells)
    return holds_if(worst <= 1e-12, {"largest difference from the loops": worst})


@claim(
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
def definition_1_2(cells: Sequence[CellResult], bound: float = 1.0, to: str = "it") -> Finding:
    """Check that the library's approximation is within its tolerance, on inputs that attain the bound B."""
    late = sum(
        (cell.result["approximate"] if to == "it" else cell.result[to]) > cell.parameters["tolerance"] for cell in cells
    )
    beyond = sum(cell.result["certificate"] > cell.parameters["tolerance"] for cell in cells)
    reach = max(cell.result["largest"] / cell.parameters["B"] for cell in cells)
    numbers: dict[str, float | str] = {
        "inputs": len(cells),
        "inputs with an error above eps_a": late,
        "inputs with a certificate above eps_a": beyond,
        "largest entry / B": reach,
    }
    return holds_if(not late and not beyond and reach <= bound * (1 + 1e-12), numbers)
