"""Definitions C.2 and D.1 of Alman and Song, which restate Definition 1.1, as printed and as they must be."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import separatrix as sx
from separatrix.attention.reference import column_kronecker
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.kronecker.definition_1_5 import ROUNDING, draw, literal
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if, typographical
from separatrix.lab.registry import experiment


@experiment(version=2, name="kronecker.definition_c_2")
def restatements(n: int, d: int, seed: int) -> dict[str, float | int | bool]:
    """Compare Definitions C.2 and D.1, as printed and corrected, with Definition 1.1.

    Definition 1.1 is computed with explicit matrices; the corrected form is the library's attention, which is
    independent code. `printed_D_inverts` is whether a D of the printed shape, n by n^2, has an inverse.
    """
    Q, K, V = draw(3, n, d, seed)
    S = Q @ column_kronecker(*K).mT
    A = torch.exp(S / d)
    first = literal(A, V)
    try:
        torch.linalg.inv(torch.diag(A.sum(1)) @ torch.eye(n, n * n, dtype=A.dtype))
        inverts = True
    except RuntimeError:
        inverts = False
    return {
        "c2_printed": float((literal(S, V) - first).abs().max()),
        "d1_printed": float((literal(torch.exp(S), V) - first).abs().max()),
        "corrected": float((sx.tensor_attention(Q, K, V) - first).abs().max()),
        "negative_weights": int((S < 0).sum()),
        "printed_D_inverts": inverts,
    }


_restatement_cells = cell_grid(restatements, {"n d": ((5, 3), (12, 4), (24, 8))})

_DIFFERS = "the printed formula is not Definition 1.1"
_COLUMNS = "a D of n rows and n^2 columns has no inverse"


def _restated(
    cells: Sequence[CellResult], printed: str, formula: str, numbers: dict[str, float | str], shows: dict[str, bool]
) -> Finding:
    corrected = max(cell.result[formula] for cell in cells)
    differs = min(cell.result[printed] for cell in cells)
    numbers = {
        "largest difference from Definition 1.1, corrected": corrected,
        "least difference from Definition 1.1, as printed": differs,
        **numbers,
    }
    return holds_if(corrected <= ROUNDING, numbers, shows={_DIFFERS: differs > ROUNDING, **shows})


@claim(
    where="Definition C.2",
    says="The definition restates Definition 1.1, tensor attention of order 3.",
    cells=_restatement_cells,
    errata=(
        typographical(
            printed=r"$A = Q (K_1 \otimes K_2)^\top$.",
            right=r"$A = \exp(Q (K_1 \otimes K_2)^\top / d)$.",
            why=r"Without $\exp$ this is linear attention: weights may be negative, and their sum may vanish. "
            r"Definition 1.1 and the lemmas that use it have $\exp$, and divide by $d$.",
            shown_by=_DIFFERS,
        ),
        typographical(
            printed=r"$D \in \mathbb{R}^{n \times n^2}$.",
            right=r"$D \in \mathbb{R}^{n \times n}$.",
            why=r"$D = \operatorname{diag}(A \mathbf{1})$ is the diagonal matrix of $n$ row sums, and it is inverted.",
            shown_by=_COLUMNS,
        ),
    ),
    neighbours=(
        Neighbour("A has no exp, as printed", {"formula": "c2_printed"}),
        Neighbour(r"$A$ has $\exp$ without the division by $d$", {"formula": "d1_printed"}),
    ),
)
def definition_c_2(cells: Sequence[CellResult], formula: str = "corrected") -> Finding:
    square = not any(cell.result["printed_D_inverts"] for cell in cells)
    negative = sum(cell.result["negative_weights"] for cell in cells)
    return _restated(cells, "c2_printed", formula, {"negative weights as printed": negative}, {_COLUMNS: square})


@claim(
    where="Definition D.1",
    says="The definition restates Definition 1.2, whose attention is that of Definition 1.1.",
    cells=_restatement_cells,
    errata=(
        typographical(
            printed=r"$A = \exp(Q (K_1 \otimes K_2)^\top)$.",
            right=r"$A = \exp(Q (K_1 \otimes K_2)^\top / d)$.",
            why="Definition 1.1, which Definition 1.2 points to, divides by $d$, and so does Lemma D.3's bound on "
            "the scores.",
            shown_by=_DIFFERS,
        ),
    ),
    neighbours=(Neighbour(r"$A$ has $\exp$ without the division by $d$, as printed", {"formula": "d1_printed"}),),
)
def definition_d_1(cells: Sequence[CellResult], formula: str = "corrected") -> Finding:
    return _restated(cells, "d1_printed", formula, {}, {})
