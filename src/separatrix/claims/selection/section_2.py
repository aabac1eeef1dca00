"""Section 2 of Wang, Wei, Hsu and Lee: the shapes of the matrices."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from separatrix.claims.ledger import Erratum, Finding, Found, claim
from separatrix.claims.selection.misprint_pairs import compared
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding
from separatrix.selection.task import SparseTokenSelection

SHAPES = (
    Erratum(
        shown_by="columns of E_y",
        printed="Section 2.2: E_y is d_e by T.",
        right="d_e by q.",
        why="E_y holds the encodings of the q positions in y, and (E_y^T E_y)^-1 meets the vector of q ones.",
    ),
    Erratum(
        shown_by="columns of Q and K",
        printed="Section 2.3: Q and K are m by d.",
        right="m by (d + d_e).",
        why="They multiply Z, which has d + d_e rows.",
    ),
    Erratum(
        shown_by="outputs of a net",
        printed="Section 3.3: the function g behind the first layer maps to R^{Td}.",
        right="to R^d.",
        why="It estimates one token's average, of d coordinates.",
    ),
)


@experiment(version=1, name="selection.shapes")
def shapes(T: int, q: int, d: int, width: int, seed: int) -> dict[str, list[float]]:
    """By how much the printed and the right dimensions differ from those of the objects themselves."""
    source = torch.Generator().manual_seed(seed)
    X, y, target = SparseTokenSelection(T, q, d).batch(1, generator=source)
    E = near_orthogonal_encoding(T, width, threshold=0.8, generator=source).E.mT
    Z = torch.cat([X[0].mT, E])
    E_y = E[:, y[0]]
    return {
        "columns of E_y": [abs(T - E_y.shape[1]), abs(q - E_y.shape[1])],
        "columns of Q and K": [abs(d - Z.shape[0]), abs(d + width - Z.shape[0])],
        "outputs of a net": [abs(T * d - target.shape[1]), abs(d - target.shape[1])],
    }


@claim(
    paper="selection",
    where="Section 2",
    part="shapes",
    says="The matrices of the task and of the transformer have the dimensions that Sections 2 and 3.3 give.",
    cells=lambda: [shapes.cell(seed=0, T=6, q=2, d=3, width=16)],
    errata=SHAPES,
)
def section_2(found: Sequence[Found]) -> Finding:
    return compared(found, SHAPES)
