"""Definitions C.1, C.4 and D.4 of Alman and Song: ordinary attention, the tensor operator, low-rank approximation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch

import separatrix as sx
from separatrix.attention.reference import tensor_scores
from separatrix.claims.kronecker.lemma_c_3 import integers
from separatrix.claims.kronecker.lemma_e_2 import factors, inputs, powers_of_exp
from separatrix.claims.ledger import Erratum, Finding, Found, Neighbour, Rank, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.definition_c_1")
def ordinary(n: int, d: int, B: float, seed: int) -> dict[str, float]:
    """D^-1 A V in loops, against the library; with sqrt(d) for d, and with column sums in the place of row sums."""
    Q, K, V = inputs(n, d, B, False, 3, seed)
    found = sx.tensor_attention(Q, K, V)
    A = torch.zeros(n, n, dtype=torch.float64)
    for i, j in itertools.product(range(n), repeat=2):
        A[i, j] = math.exp(sum(float(Q[i, a] * K[j, a]) for a in range(d)) / d)
    by_root = torch.exp(Q @ K.mT / math.sqrt(d))
    forms = {
        "it": torch.linalg.inv(torch.diag(A.sum(1))) @ A @ V,
        "root": torch.linalg.inv(torch.diag(by_root.sum(1))) @ by_root @ V,
        "columns": torch.linalg.inv(torch.diag(A.sum(0))) @ A @ V,
    }
    return {name: float((found - form).abs().max()) for name, form in forms.items()}


@experiment(version=1, name="kronecker.definition_c_4")
def contracted(sizes: list[int], widths: list[int], seed: int) -> dict[str, int | bool]:
    """T(X, Y, Z) entry by entry at random integers, against the contraction that Lemma C.5's experiments use.

    `by_printed_range` is whether T has an entry for all (a, b, c) in [d_1] x [d_2] x [d_3], as the printed range says.
    """
    generator = torch.Generator().manual_seed(seed)
    T = integers(generator, 32, *sizes)
    X, Y, Z = (integers(generator, 32, n, d) for n, d in zip(sizes, widths, strict=True))
    found = torch.einsum("abc,ai,bj,cl->ijl", T, X, Y, Z)
    # Only a tensor with two equal sizes can meet the matrices in the other order at all.
    square = sizes[0] == sizes[1]
    exchanged = torch.einsum("abc,bi,aj,cl->ijl", T, X, Y, Z) if square else found + 1
    differ = turned = 0
    for i, j, k in itertools.product(*map(range, widths)):
        entry = sum(int(T[a, b, c] * X[a, i] * Y[b, j] * Z[c, k]) for a, b, c in itertools.product(*map(range, sizes)))
        differ += int(found[i, j, k]) != entry
        turned += int(exchanged[i, j, k]) != entry
    return {
        "entries": found.numel(),
        "differ": differ,
        "turned": turned,
        "by_printed_range": all(d <= n for n, d in zip(sizes, widths, strict=True)),
    }


@experiment(version=1, name="kronecker.definition_d_4")
def approximated(n: int, d: int, B: float, degree: int, seed: int) -> dict[str, float | int]:
    """U_1 . U_2 . U_3 of the library's monomials: its error relative to A, its error relative to the largest, its rank.

    The errors are at corners of the cube [-B, B]^d, the rank is at random entries. It is that of the n x n^2 matrix,
    which is at most the tensor's.
    """
    made, A, columns = {}, {}, 0
    for corner in (False, True):
        Q, K1, K2 = inputs(n, d, B, corner, 3, seed)
        (U1, U2, U3), _, _ = factors((Q / d, K1, K2), powers_of_exp(B**3, degree))
        A[corner] = torch.exp(tensor_scores(Q, [K1, K2], 1 / d))
        made[corner], columns = torch.einsum("ir,jr,lr->ijl", U1, U2, U3), U1.shape[1]
    off = (made[True] - A[True]).abs()
    return {
        "relative": float((off / A[True]).max()),
        "absolute": float(off.max() / A[True].max()),
        "rank": int(torch.linalg.matrix_rank(made[False].flatten(1))),
        "columns": columns,
    }


def _ordinary_cells() -> Iterator[Cell]:
    for n, d, B in ((1, 1, 1.0), (3, 2, 2.0), (7, 5, 1.5), (4, 9, 3.0)):
        yield ordinary.cell(seed=0, n=n, d=d, B=B)


def _contracted_cells() -> Iterator[Cell]:
    for sizes, widths in (([2, 3, 2], [3, 1, 4]), ([1, 1, 1], [2, 2, 2]), ([3, 3, 2], [2, 4, 1])):
        yield contracted.cell(seed=0, sizes=sizes, widths=widths)


def _approximated_cells() -> Iterator[Cell]:
    for d, B, degree in ((1, 1.2, 4), (2, 1.3, 3), (3, 1.1, 3)):
        yield approximated.cell(seed=0, n=30, d=d, B=B, degree=degree)


@claim(
    paper="kronecker",
    where="Definition C.1",
    says=r"Ordinary attention is restated as $D^{-1} A V$ with $A = \exp(Q K^\top / d)$ and $D = "
    r"\operatorname{diag}(A \mathbf{1})$.",
    cells=_ordinary_cells,
    defines=("separatrix.tensor_attention",),
    neighbours=(
        Neighbour(r"divided by $\sqrt{d}$, as in other papers", {"formula": "root"}),
        Neighbour("$D$ has the sums of the columns", {"formula": "columns"}),
    ),
)
def definition_c_1(found: Sequence[Found], formula: str = "it") -> Finding:
    worst = max(one.result[formula] for one in found)
    return holds_if(worst <= 1e-12, {"largest difference": worst})


_INDEX = "T has no entry for some printed index"


@claim(
    paper="kronecker",
    where="Definition C.4",
    says=r"A tensor contracted with a matrix along each of its axes is $T(X, Y, Z)_{i, j, l} = \sum_{a, b, c} T_{a, "
    "b, c} X_{a, i} Y_{b, j} Z_{c, l}$.",
    cells=_contracted_cells,
    defines=("torch.einsum",),
    errata=(
        Erratum(
            rank=Rank.TYPOGRAPHICAL,
            printed=r"For all $a \in [d_1]$, $b \in [d_2]$, $c \in [d_3]$.",
            right=r"For all $i \in [d_1]$, $j \in [d_2]$, $l \in [d_3]$.",
            why="$a$, $b$ and $c$ are summed over, to $n_1$, $n_2$ and $n_3$; the entry's own indices are $i$, $j$ "
            "and $l$.",
            shown_by=_INDEX,
        ),
    ),
    neighbours=(Neighbour("$X$ is contracted with the second axis and $Y$ with the first", {"axes": "turned"}),),
)
def definition_c_4(found: Sequence[Found], axes: str = "differ") -> Finding:
    """Every entry over random integers; sizes for which the printed range has indices that do not exist."""
    differ = sum(one.result[axes] for one in found)
    beyond = sum(not one.result["by_printed_range"] for one in found)
    numbers: dict[str, float | str] = {
        "entries": sum(one.result["entries"] for one in found),
        "entries that differ": differ,
        "tensors without an entry for some printed index": beyond,
    }
    return holds_if(not differ, numbers, shows={_INDEX: beyond > 0})


@claim(
    paper="kronecker",
    where="Definition D.4",
    says=r"An $(\epsilon, r)$-approximation of a positive tensor is a tensor $U_1 \odot U_2 \odot U_3$ with $r$ "
    r"columns, each of whose entries has a relative error of at most $\epsilon$.",
    cells=_approximated_cells,
    defines=("separatrix.attention.near_linear.approximation.monomials.total_degree",),
    neighbours=(
        Neighbour(r"every entry within $\epsilon$ times the largest entry", {"error": "absolute"}),
        Neighbour("with fewer columns than its rank", {"fewer": 1}),
    ),
)
def definition_d_4(found: Sequence[Found], error: str = "relative", fewer: int = 0) -> Finding:
    """At corners of the cube, where entries are e^{2 B^3} apart: the two errors are not the same, and the rank is r."""
    apart = min(one.result["relative"] / one.result["absolute"] for one in found)
    other = sum(one.result["rank"] > one.result["columns"] - fewer for one in found)
    told = max(one.result[error] / one.result["relative"] for one in found)
    numbers: dict[str, float | str] = {
        "least relative error / error relative to the largest entry": apart,
        "tensors of a larger rank than columns": other,
    }
    return holds_if(not other and apart > 1 and told > 0.99, numbers)
