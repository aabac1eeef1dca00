"""Definitions A.1, A.4, D.3 and E.1 of Wang, Wei, Hsu and Lee: restricted isometry, and three repeated definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if, typographical
from separatrix.claims.selection.definitions_2_1_to_2_5 import (
    SELECTION_NEIGHBOURS,
    STOCHASTIC_NEIGHBOURS,
    stochastic_cells,
    stochastic_finding,
    task_cells,
    task_finding,
)
from separatrix.claims.selection.plane import TIGHT
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import one_hot_encoding, random_signs, subset_code
from separatrix.selection.isometry import restricted_isometry
from separatrix.selection.task import all_subsets
from separatrix.selection.transformer import SelectionTransformer


@experiment(version=1, name="selection.definition_a_1")
def isometry(T: int, q: int, width: int, seed: int) -> dict[str, float]:
    """Return the least delta of Definition A.1 by singular values over all supports of sizes up to q and up to 2 q.

    `same size` takes supports of size up to q for both vectors, `unsquared` takes norms instead of their squares.
    """
    source = torch.Generator().manual_seed(seed)
    E = random_signs(T, width, source).double() / math.sqrt(width)
    largest = {"squared": 0.0, "unsquared": 0.0, "q and 2 q": 0.0, "q and q": 0.0}
    for size in range(1, q + 1):
        for S in itertools.combinations(range(T), size):
            values = torch.linalg.svdvals(E[list(S)])
            for value in (float(values.max()), float(values.min())):
                largest["squared"] = max(largest["squared"], abs(value**2 - 1))
                largest["unsquared"] = max(largest["unsquared"], abs(value - 1))
            outside = [i for i in range(T) if i not in S]
            for count in range(1, min(2 * q, len(outside)) + 1):
                for S2 in itertools.combinations(outside, count):
                    norm = float(torch.linalg.matrix_norm(E[list(S)] @ E[list(S2)].mT, 2))
                    largest["q and 2 q"] = max(largest["q and 2 q"], norm)
                    if count <= q:
                        largest["q and q"] = max(largest["q and q"], norm)
    isometry = restricted_isometry(E, q)
    return {
        "it": abs(isometry.upper - max(largest["squared"], largest["q and 2 q"])) + (isometry.upper - isometry.lower),
        "same size": abs(isometry.upper - max(largest["squared"], largest["q and q"])),
        "unsquared": abs(isometry.isometry[1] - largest["unsquared"]),
    }


@experiment(version=1, name="selection.definition_d_3")
def orthogonal(T: int, q: int, seed: int) -> dict[str, float]:
    """Check E E^T = I, and compare e_y as a sum with E_y (E_y^T E_y)^-1 1, over all subsets."""
    E = one_hot_encoding(T, dtype=torch.float64)
    y = all_subsets(T, q)
    inside = torch.zeros(len(y), T, dtype=torch.float64).scatter_(1, y, 1.0)
    return {
        "orthogonal": float((E @ E.mT - torch.eye(T, dtype=torch.float64)).abs().max()),
        "sum": float((subset_code(E, y) - E[y].sum(1)).abs().max()),
        "mean": float((subset_code(E, y) - E[y].mean(1)).abs().max()),
        "products": float((subset_code(E, y) @ E.mT - inside).abs().max()),
    }


@experiment(version=1, name="selection.definition_e_1")
def shapes(d: int, width: int, T: int, seed: int) -> dict[str, list[int] | list[float]]:
    """Test which shapes of W, V and Z the model accepts; a pair [printed, right] has 1 for a shape that does not
    fit."""
    model = SelectionTransformer(d, width, dtype=torch.float64)
    W, V = list(model.W.shape), list(model.V.shape)
    Z = [d + width, T]
    return {
        "shapes of W and V": [float([width, width] != W or [d, d] != V), float([d + width] * 2 != W or V[1] != Z[0])],
        "rows of Z": [float([d + T, T] != Z), float(Z[0] != W[0])],
    }


@claim(
    where="Definition A.1",
    says=r"Restricted isometry and orthogonality means that $\lVert E v \rVert^2$ is within $\delta \lVert v "
    r"\rVert^2$ of $\lVert v \rVert^2$ for supports of up to $q$, and that $\lvert \langle E v, E v' \rangle \rvert "
    r"\le \delta \lVert v \rVert \lVert v' \rVert$ for disjoint supports of up to $q$ and $2 q$.",
    cells=cell_grid(isometry, {"T q width": ((4, 1, 8), (5, 2, 16), (6, 2, 32), (3, 3, 8))}, seed=1),
    defines=("separatrix.selection.isometry.restricted_isometry",),
    neighbours=(
        Neighbour("disjoint supports of up to $q$ both", {"form": "same size"}),
        Neighbour(r"$\lVert E v \rVert$ within $\delta \lVert v \rVert$ of $\lVert v \rVert$", {"form": "unsquared"}),
    ),
)
def definition_a_1(cells: Sequence[CellResult], form: str = "it") -> Finding:
    """Compare the library's constant with the singular values over all supports."""
    worst = max(cell.result[form] for cell in cells)
    return holds_if(worst <= 1e-9, {"largest difference": worst})


definition_a_4 = claim(
    where="Definition A.4",
    says="The definition repeats the task of Definition 2.1, for comparison with the original one.",
    cells=task_cells,
    defines=("separatrix.selection.SparseTokenSelection",),
    neighbours=SELECTION_NEIGHBOURS,
    home=__name__,
)(task_finding)


@claim(
    where="Definition D.3",
    says="The definition repeats one-hot encodings: $E = I_T$ is orthogonal, and $e_y$ is the sum over the subset.",
    cells=cell_grid(orthogonal, {"T q": ((1, 1), (4, 2), (6, 5), (8, 3))}),
    defines=("separatrix.selection.encodings.one_hot_encoding",),
    neighbours=(Neighbour("$e_y$ is the mean over the subset", {"code": "mean"}),),
)
def definition_d_3(cells: Sequence[CellResult], code: str = "sum") -> Finding:
    worst = max(max(cell.result["orthogonal"], cell.result[code], cell.result["products"]) for cell in cells)
    return holds_if(worst <= TIGHT, {"largest difference": worst})


SHAPES = (
    typographical(
        shown_by="shapes of W and V",
        printed=r"$W \in \mathbb{R}^{d_e \times d_e}$, $V \in \mathbb{R}^{d \times d}$; in Theorem E.6 both start as "
        r"zeros of these shapes.",
        right=r"$W \in \mathbb{R}^{(d + d_e) \times (d + d_e)}$, $V \in \mathbb{R}^{d \times (d + d_e)}$, as in "
        r"Definition 2.5.",
        why="They are multiplied with $Z$, which has $d + d_e$ rows. The printed shapes are those of the blocks "
        "that are not zero.",
    ),
    typographical(
        shown_by="rows of Z",
        printed=r"Equation (11): $Z \in \mathbb{R}^{(d + T) \times T}$.",
        right=r"$\mathbb{R}^{(d + d_e) \times T}$, as in Equation (14).",
        why="Encodings have $d_e$ coordinates here; one-hot encodings have $T$.",
    ),
)


@claim(
    where="Definition E.1",
    says="The definition repeats the transformer with stochastic encodings.",
    cells=joined(stochastic_cells, cell_grid(shapes, {"d width T": ((2, 8, 5), (1, 16, 3), (5, 170, 200))})),
    defines=("separatrix.selection.StochasticSelectionTransformer",),
    errata=SHAPES,
    neighbours=STOCHASTIC_NEIGHBOURS,
)
def definition_e_1(cells: Sequence[CellResult], over: str = "valid") -> Finding:
    """Check the mean over valid encodings as in Definition 2.5, and the shapes that the model accepts."""
    sizes = [cell for cell in cells if "rows of Z" in cell.result]
    finding = stochastic_finding([cell for cell in cells if "valid" in cell.result], over)
    pairs = {erratum.shown_by: [cell.result[erratum.shown_by] for cell in sizes] for erratum in SHAPES}
    right = all(pair[1] == 0 for found_pairs in pairs.values() for pair in found_pairs)
    numbers = {**finding.numbers, "sizes at which the printed shapes do not fit": f"{len(sizes)} of {len(sizes)}"}
    shows = {name: all(pair[0] > 0 for pair in found_pairs) for name, found_pairs in pairs.items()}
    return holds_if(finding.verdict.value == "holds" and right, numbers, shows=shows)
