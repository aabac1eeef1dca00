"""Lemma A.3 of Wang, Wei, Hsu and Lee: the code of a subset, its norm and its overlaps.

The constant delta of an encoding is exact, by enumeration of all sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim
from separatrix.claims.misprint_pairs import ROUNDING, as_printed, compared, missed
from separatrix.errors import ArgumentError
from separatrix.lab.registry import experiment
from separatrix.selection.construction import overlaps
from separatrix.selection.encodings import random_signs, subset_code
from separatrix.selection.isometry import restricted_isometry
from separatrix.selection.task import all_subsets

CODE = (
    Erratum(
        rank=Rank.STATEMENT,
        at="Lemma A.3, the last inequality",
        slip="overlap with a subset's code",
        shown_by="overlap outside the subset",
        printed=r"$\lvert \langle e_i, e_v \rangle \rvert \le \frac{\delta}{1 - 2 \delta}$ for every $i$ outside $v$.",
        right=r"$\lvert \langle e_i, e_v \rangle \rvert \le \frac{\delta \sqrt{q}}{1 - \delta}$.",
        why=r"$\langle e_i, e_v \rangle = \langle E \mathbf{1}_i, E u \rangle$ with $u = (E_v^\top E_v)^{-1} "
        r"\mathbf{1}$ of norm at most $\sqrt{q} / (1 - \delta)$, and the $(q, \delta)$-property bounds the product "
        r"by $\delta \lVert u \rVert$. Lemma 2.1 of Candes and Tao, which the proof cites, avoids the factor "
        r"$\sqrt{q}$ only outside an exceptional set. If one vector has the same small product with each of $q$ "
        r"orthogonal vectors, the overlap is $\delta \sqrt{q}$. Section 2.2, Theorem C.3, Lemmas E.7 and E.15, "
        "Theorem E.6 and Corollary E.16 use the printed bound.",
    ),
)


def leaning(q: int, width: int, outside: int = 1) -> Tensor:
    """q orthogonal sign vectors, and other orthogonal vectors whose product with each of the q is 2 / width.

    The shape is (q + outside, width).

    >>> (leaning(2, 8, outside=2) @ leaning(2, 8, outside=2).mT)[-1].round(decimals=9).abs().tolist()
    [0.25, 0.25, 0.0, 1.0]
    """
    H = torch.ones(1, 1, dtype=torch.float64)
    while len(H) < width:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    if len(H) != width or not 1 <= q < width or not 1 <= outside <= width - q:
        raise ArgumentError("width", expected=f"a power of 2, at least q + outside = {q + outside}", got=width)
    # All rows have a 1 in the first column; with its sign flipped, a row has the same product with all others.
    outside_rows = torch.cat([H[:1], H[q + 1 : q + outside]])
    outside_rows[:, 0] = -1
    return torch.cat([-H[1 : q + 1], outside_rows]) / math.sqrt(width)


@experiment(version=2, name="selection.lemma_a3")
def subset_codes(kind: Literal["random", "leaning"], T: int, q: int, width: int, seed: int) -> dict[str, object]:
    """Compare the norms and inner products of the codes of all subsets of up to q positions with the bounds."""
    source = torch.Generator().manual_seed(seed)
    signs = random_signs(T, width, source).double() / math.sqrt(width)
    E = leaning(q, width) if kind == "leaning" else signs
    isometry = restricted_isometry(E, q)
    delta = isometry.upper
    if not isometry.exact or delta >= 0.5:
        raise ArgumentError("width", expected="an encoding with delta below 1/2, by enumeration", got=delta)
    inside, norms, outside = 0.0, -math.inf, []
    for size in range(1, q + 1):
        y = all_subsets(len(E), size)
        codes = subset_code(E, y)
        inside = max(inside, float(((E[y] @ codes.unsqueeze(2)).squeeze(2) - 1).abs().max()))
        norms = max(norms, float(codes.norm(dim=1).max()) - math.sqrt(q) / (1 - 2 * delta))
        outside.append(float(overlaps(E, y).abs().max()))
    largest = max(outside)
    slips = [(largest - delta / (1 - 2 * delta), largest - delta * math.sqrt(q) / (1 - delta))]
    return {
        "delta": delta,
        "largest_overlap": largest,
        "inside": inside,
        "norm_missed": norms,
        "norm_missed_at_1": norms + (math.sqrt(q) - 1) / (1 - 2 * delta),
        "overlap outside the subset": missed(slips),
    }


@claim(
    where="Lemma A.3",
    says=r"If $E$ has the $(q, \delta)$-property, the code $e_v = E_v (E_v^\top E_v)^{-1} \mathbf{1}$ of a set of at "
    r"most $q$ positions has norm at most $\sqrt{q} / (1 - 2 \delta)$, inner product 1 with the encodings in the "
    r"set, and inner products of at most $\delta / (1 - 2 \delta)$ with all others.",
    cells=joined(
        cell_grid(subset_codes, {"T q": ((3, 2), (4, 3), (5, 4), (7, 6))}, kind="leaning", width=64),
        cell_grid(subset_codes, {"T q width": ((10, 1, 256), (9, 2, 512), (8, 3, 2048))}, seed=1, kind="random"),
    ),
    errata=CODE,
    neighbours=(
        *as_printed(CODE),
        Neighbour(r"norm at most $1 / (1 - 2 \delta)$", {"norm_missed": "norm_missed_at_1"}),
    ),
)
def lemma_a_3(cells: Sequence[CellResult], misprint: str = "", norm_missed: str = "norm_missed") -> Finding:
    """Check that the norm of the code and its products with the encodings of the subset are as printed, and that the
    bound on its products with the other encodings is not.
    """
    deltas = [cell.result["delta"] for cell in cells]
    inside = max(cell.result["inside"] for cell in cells)
    norm = max(cell.result[norm_missed] for cell in cells)
    numbers: dict[str, float | str] = {
        "largest |<e_i, e_v> - 1| inside": inside,
        "violation of the norm bound": max(norm, 0.0),
        "deltas": f"{min(deltas):.4f} to {max(deltas):.4f}",
    }
    return compared(cells, CODE, numbers, held=max(inside, norm) <= ROUNDING, misprint=misprint)
