"""Definitions C.1, C.4 and D.4 of Alman and Song: ordinary attention, the tensor operator, low-rank approximation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch

import separatrix as sx
from separatrix.attention.reference import tensor_scores
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.kronecker.lemma_c_3 import integers
from separatrix.claims.kronecker.lemma_e_2 import factors, inputs, powers_of_exp
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if, typographical
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.definition_c_1")
def ordinary(n: int, d: int, B: float, seed: int) -> dict[str, float]:
    """Compare the library with D^-1 A V, and with two wrong forms: with sqrt(d) instead of d, and with column sums."""
    Q, K, V = inputs(n, d, B, False, 3, seed)
    output = sx.tensor_attention(Q, K, V)
    A = torch.zeros(n, n, dtype=torch.float64)
    for i, j in itertools.product(range(n), repeat=2):
        A[i, j] = math.exp(sum(float(Q[i, a] * K[j, a]) for a in range(d)) / d)
    by_root = torch.exp(Q @ K.mT / math.sqrt(d))
    forms = {
        "it": torch.linalg.inv(torch.diag(A.sum(1))) @ A @ V,
        "root": torch.linalg.inv(torch.diag(by_root.sum(1))) @ by_root @ V,
        "columns": torch.linalg.inv(torch.diag(A.sum(0))) @ A @ V,
    }
    return {name: float((output - form).abs().max()) for name, form in forms.items()}


@experiment(version=1, name="kronecker.definition_c_4")
def contracted(sizes: list[int], widths: list[int], seed: int) -> dict[str, int | bool]:
    """Compare T(X, Y, Z), entry by entry at random integers, with the contraction in the experiments of Lemma C.5.

    `by_printed_range` is whether T has an entry for all (a, b, c) in [d_1] x [d_2] x [d_3], as the printed range says.
    """
    generator = torch.Generator().manual_seed(seed)
    T = integers(generator, 32, *sizes)
    X, Y, Z = (integers(generator, 32, n, d) for n, d in zip(sizes, widths, strict=True))
    contraction = torch.einsum("abc,ai,bj,cl->ijl", T, X, Y, Z)
    # The matrices can be contracted in the other order only if the first two sizes are equal.
    square = sizes[0] == sizes[1]
    exchanged = torch.einsum("abc,bi,aj,cl->ijl", T, X, Y, Z) if square else contraction + 1
    differ = turned = 0
    for i, j, k in itertools.product(*map(range, widths)):
        entry = sum(int(T[a, b, c] * X[a, i] * Y[b, j] * Z[c, k]) for a, b, c in itertools.product(*map(range, sizes)))
        differ += int(contraction[i, j, k]) != entry
        turned += int(exchanged[i, j, k]) != entry
    return {
        "entries": contraction.numel(),
        "differ": differ,
        "turned": turned,
        "by_printed_range": all(d <= n for n, d in zip(sizes, widths, strict=True)),
    }


@experiment(version=1, name="kronecker.definition_d_4")
def approximated(n: int, d: int, B: float, degree: int, seed: int) -> dict[str, float | int]:
    """Return the errors and the rank of U_1 . U_2 . U_3 made from the library's monomials.

    `relative` is the error relative to each entry of A, `absolute` the error relative to its largest entry, both at
    corners of the cube [-B, B]^d. `rank` is the rank of the n x n^2 matrix at random entries, a lower bound on the rank
    of the tensor.
    """
    approximation, A, columns = {}, {}, 0
    for corner in (False, True):
        Q, K1, K2 = inputs(n, d, B, corner, 3, seed)
        (U1, U2, U3), _, _ = factors((Q / d, K1, K2), powers_of_exp(B**3, degree))
        A[corner] = torch.exp(tensor_scores(Q, [K1, K2], 1 / d))
        approximation[corner], columns = torch.einsum("ir,jr,lr->ijl", U1, U2, U3), U1.shape[1]
    off = (approximation[True] - A[True]).abs()
    return {
        "relative": float((off / A[True]).max()),
        "absolute": float(off.max() / A[True].max()),
        "rank": int(torch.linalg.matrix_rank(approximation[False].flatten(1))),
        "columns": columns,
    }


@claim(
    where="Definition C.1",
    says=r"Ordinary attention is restated as $D^{-1} A V$ with $A = \exp(Q K^\top / d)$ and $D = "
    r"\operatorname{diag}(A \mathbf{1})$.",
    cells=cell_grid(ordinary, {"n d B": ((1, 1, 1.0), (3, 2, 2.0), (7, 5, 1.5), (4, 9, 3.0))}),
    defines=("separatrix.tensor_attention",),
    neighbours=(
        Neighbour(r"divided by $\sqrt{d}$, as in other papers", {"formula": "root"}),
        Neighbour("$D$ has the sums of the columns", {"formula": "columns"}),
    ),
)
def definition_c_1(cells: Sequence[CellResult], formula: str = "it") -> Finding:
    worst = max(cell.result[formula] for cell in cells)
    return holds_if(worst <= 1e-12, {"largest difference": worst})


_INDEX = "T has no entry for some printed index"


@claim(
    where="Definition C.4",
    says=r"A tensor contracted with a matrix along each of its axes is $T(X, Y, Z)_{i, j, l} = \sum_{a, b, c} T_{a, "
    "b, c} X_{a, i} Y_{b, j} Z_{c, l}$.",
    cells=cell_grid(
        contracted, {"sizes widths": (([2, 3, 2], [3, 1, 4]), ([1, 1, 1], [2, 2, 2]), ([3, 3, 2], [2, 4, 1]))}
    ),
    defines=("torch.einsum",),
    errata=(
        typographical(
            printed=r"For all $a \in [d_1]$, $b \in [d_2]$, $c \in [d_3]$.",
            right=r"For all $i \in [d_1]$, $j \in [d_2]$, $l \in [d_3]$.",
            why="$a$, $b$ and $c$ are summed over, to $n_1$, $n_2$ and $n_3$; the entry's own indices are $i$, $j$ "
            "and $l$.",
            shown_by=_INDEX,
        ),
    ),
    neighbours=(Neighbour("$X$ is contracted with the second axis and $Y$ with the first", {"axes": "turned"}),),
)
def definition_c_4(cells: Sequence[CellResult], axes: str = "differ") -> Finding:
    """Compare every entry at random integers, and count the tensors for which the printed range exceeds their sizes."""
    differ = sum(cell.result[axes] for cell in cells)
    beyond = sum(not cell.result["by_printed_range"] for cell in cells)
    numbers: dict[str, float | str] = {
        "entries": sum(cell.result["entries"] for cell in cells),
        "entries that differ": differ,
        "tensors without an entry for some printed index": beyond,
    }
    return holds_if(not differ, numbers, shows={_INDEX: beyond > 0})


@claim(
    where="Definition D.4",
    says=r"An $(\epsilon, r)$-approximation of a positive tensor is a tensor $U_1 \odot U_2 \odot U_3$ with $r$ "
    r"columns, each of whose entries has a relative error of at most $\epsilon$.",
    cells=cell_grid(approximated, {"d B degree": ((1, 1.2, 4), (2, 1.3, 3), (3, 1.1, 3))}, n=30),
    defines=("separatrix.attention.near_linear.approximation.monomials.total_degree",),
    neighbours=(
        Neighbour(r"every entry within $\epsilon$ times the largest entry", {"error": "absolute"}),
        Neighbour("with fewer columns than its rank", {"fewer": 1}),
    ),
)
def definition_d_4(cells: Sequence[CellResult], error: str = "relative", fewer: int = 0) -> Finding:
    """Check that the two errors differ at corners of the cube, and that the rank is r."""
    apart = min(cell.result["relative"] / cell.result["absolute"] for cell in cells)
    excess = sum(cell.result["rank"] > cell.result["columns"] - fewer for cell in cells)
    quotient = max(cell.result[error] / cell.result["relative"] for cell in cells)
    numbers: dict[str, float | str] = {
        "least relative error / error relative to the largest entry": apart,
        "tensors whose rank exceeds the number of columns": excess,
    }
    return holds_if(not excess and apart > 1 and quotient > 0.99, numbers)
