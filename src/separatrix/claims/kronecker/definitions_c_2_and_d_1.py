"""Definitions C.2 and D.1 of Alman and Song, which restate Definition 1.1, as printed and as they must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

import separatrix as sx
from separatrix.attention.reference import column_kronecker
from separatrix.claims.kronecker.definition_1_5 import ROUNDING, draw, literal
from separatrix.claims.ledger import Erratum, Finding, Found, Neighbour, Rank, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


@experiment(version=2, name="kronecker.definition_c_2")
def restatements(n: int, d: int, seed: int) -> dict[str, float | int | bool]:
    """Definitions C.2 and D.1 as printed and with what they lack, against Definition 1.1.

    The right side is Definition 1.1 written out; the left side is the library's attention, which is computed by other
    code. `printed_D_inverts` is whether a D of the printed shape, n by n^2, has an inverse.
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


def _restatement_cells() -> Iterator[Cell]:
    for n, d in ((5, 3), (12, 4), (24, 8)):
        yield restatements.cell(seed=0, n=n, d=d)


_DIFFERS = "the printed formula is not Definition 1.1"
_COLUMNS = "a D of n rows and n^2 columns has no inverse"


def _restated(
    found: Sequence[Found], printed: str, formula: str, numbers: dict[str, float | str], shows: dict[str, bool]
) -> Finding:
    corrected = max(one.result[formula] for one in found)
    differs = min(one.result[printed] for one in found)
    numbers = {
        "largest difference from Definition 1.1, corrected": corrected,
        "least difference from Definition 1.1, as printed": differs,
        **numbers,
    }
    return holds_if(corrected <= ROUNDING, numbers, shows={_DIFFERS: differs > ROUNDING, **shows})


@claim(
    paper="kronecker",
    where="Definition C.2",
    says="The definition restates Definition 1.1, tensor attention of order 3.",
    cells=_restatement_cells,
    errata=(
        Erratum(
            printed=r"$A = Q (K_1 \otimes K_2)^\top$.",
            right=r"$A = \exp(Q (K_1 \otimes K_2)^\top / d)$.",
            why=r"Without $\exp$ this is linear attention: weights may be negative, and their sum may vanish. "
            r"Definition 1.1 and the lemmas that use it have $\exp$, and divide by $d$.",
            rank=Rank.STATEMENT,
            shown_by=_DIFFERS,
        ),
        Erratum(
            printed=r"$D \in \mathbb{R}^{n \times n^2}$.",
            right=r"$D \in \mathbb{R}^{n \times n}$.",
            why=r"$D = \operatorname{diag}(A \mathbf{1})$ is the diagonal matrix of $n$ row sums, and it is inverted.",
            rank=Rank.TYPOGRAPHICAL,
            shown_by=_COLUMNS,
        ),
    ),
    neighbours=(
        Neighbour("A has no exp, as printed", {"formula": "c2_printed"}),
        Neighbour(r"$A$ has $\exp$ without the division by $d$", {"formula": "d1_printed"}),
    ),
)
def definition_c_2(found: Sequence[Found], formula: str = "corrected") -> Finding:
    square = not any(one.result["printed_D_inverts"] for one in found)
    negative = sum(one.result["negative_weights"] for one in found)
    return _restated(found, "c2_printed", formula, {"negative weights as printed": negative}, {_COLUMNS: square})


@claim(
    paper="kronecker",
    where="Definition D.1",
    says="The definition restates Definition 1.2, whose attention is that of Definition 1.1.",
    cells=_restatement_cells,
    errata=(
        Erratum(
            printed=r"$A = \exp(Q (K_1 \otimes K_2)^\top)$.",
            right=r"$A = \exp(Q (K_1 \otimes K_2)^\top / d)$.",
            why="Definition 1.1, which Definition 1.2 points to, divides by $d$, and so does Lemma D.3's bound on "
            "the scores.",
            rank=Rank.STATEMENT,
            shown_by=_DIFFERS,
        ),
    ),
    neighbours=(Neighbour(r"$A$ has $\exp$ without the division by $d$, as printed", {"formula": "d1_printed"}),),
)
def definition_d_1(found: Sequence[Found], formula: str = "corrected") -> Finding:
    return _restated(found, "d1_printed", formula, {}, {})
