"""Section 2 of Wang, Wei, Hsu and Lee: the shapes of the matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from separatrix.claims.ledger import Erratum, Finding, Found, Rank, claim
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding
from separatrix.selection.task import SparseTokenSelection

SHAPES = (
    Erratum(
        rank=Rank.TYPOGRAPHICAL,
        at="Section 2.2",
        shown_by="columns of E_y",
        printed=r"$E_y$ is $d_e \times T$.",
        right=r"$d_e \times q$.",
        why=r"$E_y$ holds the encodings of the $q$ positions in $y$, and $(E_y^\top E_y)^{-1}$ meets the vector of "
        "$q$ ones.",
    ),
    Erratum(
        rank=Rank.TYPOGRAPHICAL,
        at="Section 2.3",
        shown_by="columns of Q and K",
        printed=r"$Q$ and $K$ are $m \times d$.",
        right=r"$m \times (d + d_e)$.",
        why="They multiply $Z$, which has $d + d_e$ rows.",
    ),
    Erratum(
        rank=Rank.TYPOGRAPHICAL,
        at="Section 3.3",
        shown_by="outputs of a net",
        printed=r"The function $g$ behind the first layer maps to $\mathbb{R}^{T d}$.",
        right=r"To $\mathbb{R}^d$.",
        why="It estimates one token's average, of $d$ coordinates.",
    ),
)


def _fails(product: Callable[[], Tensor]) -> float:
    """1 if a product of matrices has no meaning, 0 if it has one."""
    try:
        product()
    except RuntimeError:
        return 1.0
    return 0.0


@experiment(version=2, name="selection.shapes")
def shapes(T: int, q: int, d: int, width: int, seed: int) -> dict[str, list[float]]:
    """Whether the formulas of the paper have a meaning with the printed and with the right dimensions: 0 if so."""
    source = torch.Generator().manual_seed(seed)
    X, y, target = SparseTokenSelection(T, q, d).batch(1, generator=source)
    E = near_orthogonal_encoding(T, width, threshold=0.8, generator=source).E.mT
    Z = torch.cat([X[0].mT, E])
    ones, m = torch.ones(q), 7

    def code(E_y: Tensor) -> Tensor:
        made: Tensor = E_y @ torch.linalg.inv(E_y.mT @ E_y) @ ones
        return made

    return {
        "columns of E_y": [_fails(lambda: code(E)), _fails(lambda: code(E[:, y[0]]))],
        "columns of Q and K": [_fails(lambda: torch.ones(m, d) @ Z), _fails(lambda: torch.ones(m, d + width) @ Z)],
        "outputs of a net": [_fails(lambda: torch.ones(T * d) - target[0]), _fails(lambda: torch.ones(d) - target[0])],
    }


@claim(
    paper="selection",
    where="Section 2",
    part="shapes",
    says="The matrices of the task and of the transformer have the dimensions that Sections 2 and 3.3 give.",
    cells=lambda: [shapes.cell(seed=0, T=T, q=q, d=d, width=w) for T, q, d, w in ((6, 2, 3, 16), (9, 4, 2, 32))],
    errata=SHAPES,
    neighbours=as_printed(SHAPES),
)
def section_2(found: Sequence[Found], misprint: str = "") -> Finding:
    return compared(found, SHAPES, misprint=misprint)
