"""Section 2 of Wang, Wei, Hsu and Lee: the shapes of the matrices."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, typographical
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding, subset_code
from separatrix.selection.fcn import FCN
from separatrix.selection.learners import SelectionLearner
from separatrix.selection.task import SparseTokenSelection

SHAPES = (
    typographical(
        at="Section 2.2",
        shown_by="columns of E_y",
        printed=r"$E_y$ is $d_e \times T$.",
        right=r"$d_e \times q$.",
        why=r"$E_y$ holds the encodings of the $q$ positions in $y$, and $(E_y^\top E_y)^{-1}$ multiplies the vector "
        "of $q$ ones.",
    ),
    typographical(
        at="Section 2.3",
        shown_by="columns of Q and K",
        printed=r"$Q$ and $K$ are $m \times d$.",
        right=r"$m \times (d + d_e)$.",
        why="They multiply $Z$, which has $d + d_e$ rows.",
    ),
    typographical(
        at="Section 3.3",
        shown_by="outputs of a net",
        printed=r"The function $g$ behind the first layer maps to $\mathbb{R}^{T d}$.",
        right=r"To $\mathbb{R}^d$.",
        why="It estimates the average of tokens, which has $d$ coordinates.",
    ),
)


def _apart(E_y: Tensor, code: Tensor, q: int) -> float:
    """The largest distance of E_y (E_y^T E_y)^-1 1_q from the library's code; 1 if the shapes do not fit."""
    try:
        combination = E_y @ torch.linalg.inv(E_y.mT @ E_y) @ torch.ones(q, dtype=E_y.dtype)
    except RuntimeError:
        return 1.0
    return float((combination - code).abs().max())


@experiment(version=3, name="selection.shapes")
def shapes(T: int, q: int, d: int, width: int, seed: int) -> dict[str, list[float] | int]:
    """Compare the dimensions of the library's matrices with the printed and the corrected ones: 0 where they agree.

    The code of a subset is compared numerically with the formula of the paper. `columns` are the columns of Q and K in
    the layer with separate queries and keys, and `outputs` the outputs of a fully-connected net.
    """
    source = torch.Generator().manual_seed(seed)
    X, y, _ = SparseTokenSelection(T, q, d).batch(1, generator=source)
    rows = near_orthogonal_encoding(T, width, threshold=0.8, generator=source, dtype=torch.float64).E
    E = rows.mT
    code = subset_code(rows, y[0])
    layer = SelectionLearner("softmax QK", d, width, generator=source)
    columns = {matrix.shape[1] for matrix in (layer.Q, layer.K)}
    outputs = FCN(T, q, d, [7], generator=source)(X, y).shape[-1]
    return {
        "columns of E_y": [_apart(E, code, q), _apart(E[:, y[0]], code, q)],
        "columns of Q and K": [float(columns != {size}) for size in (d, d + width)],
        "outputs of a net": [float(outputs != size) for size in (T * d, d)],
        "columns": max(columns),
        "outputs": outputs,
    }


def _size(name: str, T: int, q: int, d: int, width: int) -> int:
    """The value of a dimension, given by its name.

    >>> _size("d + d_e", T=6, q=2, d=3, width=16)
    19
    """
    return {"d + d_e": d + width, "d + T": d + T, "d": d, "q d": q * d}[name]


@claim(
    where="Section 2",
    part="shapes",
    says="The matrices of the task and of the transformer have the dimensions that Sections 2 and 3.3 give.",
    cells=lambda: [shapes.cell(seed=0, T=T, q=q, d=d, width=w) for T, q, d, w in ((6, 2, 3, 16), (9, 4, 2, 32))],
    errata=SHAPES,
    neighbours=(
        *as_printed(SHAPES),
        Neighbour(r"$Q$ and $K$ are $m \times (d + T)$", {"columns": "d + T"}),
        Neighbour(r"$g$ maps to $\mathbb{R}^{q d}$", {"outputs": "q d"}),
    ),
    history=(
        "Until 2026-11-17 the check multiplied matrices of ones with the dimensions in question, which says nothing "
        "about the models. The dimensions are now those of the library's models, and the code of a subset is "
        "compared numerically.",
    ),
)
def section_2(cells: Sequence[CellResult], misprint: str = "", columns: str = "d + d_e", outputs: str = "d") -> Finding:
    """Check the printed and the corrected dimensions, and that the models have `columns` and `outputs`."""
    passed = all(
        cell.result["columns"] == _size(columns, **cell.parameters)
        and cell.result["outputs"] == _size(outputs, **cell.parameters)
        for cell in cells
    )
    return compared(cells, SHAPES, held=passed, misprint=misprint)
