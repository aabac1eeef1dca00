"""Lemmas E.10 to E.13 of Wang, Wei, Hsu and Lee: the symmetries of random encodings, over all valid ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Claim, Erratum, Finding, Neighbour, claim, holds_if, typographical
from separatrix.claims.selection.valid_encodings import SIZES, TIGHT, attention, codes, valid_encodings
from separatrix.lab.registry import experiment
from separatrix.selection.task import all_subsets

_TURNED = "a row vector has no place on the right"
_OLD = "the code of E has other products with E'"


@experiment(version=2, name="selection.lemmas_e10_to_e13")
def symmetries(T: int, q: int, width: int, C: float, seed: int) -> dict[str, float | bool]:
    """Return the changes of weights and Gram matrices by flips and exchanges, and the entries of E[f(S) e_i e_y^T].

    `position flipped` flips the sign of one position's encoding, `positions exchanged` exchanges the encodings of a
    position inside the subset and one outside. `old code` is the distance of E'^T e_y from E^T e_y, where E' has two
    rows exchanged and e_y is the code of E. `single` is the largest entry off the diagonal for one encoding. f is the
    weight of the first position, its square, and the largest weight.
    """
    stack = valid_encodings(T, width)
    names = ("row flipped", "rows exchanged", "position flipped", "positions exchanged", "old code")
    distances = dict.fromkeys((*names, "off", "single", "apart"), 0.0)
    scale = 0.0
    for subset in all_subsets(T, q):
        S = attention(stack, subset, C)
        outside = next(i for i in range(T) if i not in subset.tolist())
        for k in range(width):
            flips = torch.ones(width, dtype=torch.float64)
            flips[k] = -1
            order = list(range(width))
            order[k], order[0] = order[0], order[k]
            for name, changed in (("row flipped", stack * flips), ("rows exchanged", stack[:, :, order])):
                gram = (changed[:, subset] @ changed[:, subset].mT - stack[:, subset] @ stack[:, subset].mT).abs().max()
                distances[name] = max(
                    distances[name], float((attention(changed, subset, C) - S).abs().max()), float(gram)
                )
            exchanged = stack[:, :, order] @ codes(stack, subset).unsqueeze(2)
            products = stack @ codes(stack, subset).unsqueeze(2)
            distances["old code"] = max(distances["old code"], float((exchanged - products).abs().max()))
        turned = stack.clone()
        turned[:, outside] *= -1
        swapped = stack.clone()
        swapped[:, [outside, int(subset[0])]] = stack[:, [int(subset[0]), outside]]
        for name, changed in (("position flipped", turned), ("positions exchanged", swapped)):
            distances[name] = max(distances[name], float((attention(changed, subset, C) - S).abs().max()))
        e_y = codes(stack, subset)
        for f in (S[:, 0], S[:, 0].square(), S.amax(1)):
            for i in range(T):
                outer = f[:, None, None] * stack[:, i, :, None] * e_y[:, None, :]
                mean = outer.mean(0)
                diagonal = mean.diagonal()
                distances["off"] = max(distances["off"], float((mean - torch.diag(diagonal)).abs().max()))
                distances["apart"] = max(distances["apart"], float(diagonal.max() - diagonal.min()))
                distances["single"] = max(
                    distances["single"], float((outer[0] - torch.diag(outer[0].diagonal())).abs().max())
                )
                own = outer[0].diagonal()
                scale = max(scale, float(own.max() - own.min()))
    u = torch.zeros(1, width)
    return {**distances, "single apart": scale, "row fits": u.shape[0] == width, "column fits": u.mT.shape[0] == width}


def _symmetry(where: str, says: str, right: str, wrong: str, instead: str, errata: Sequence[Erratum] = ()) -> Claim:
    @claim(
        where=where,
        says=says,
        cells=cell_grid(
            symmetries, {"T q width C": [(*size, C) for size, C in zip(SIZES, (0.7, 3.0, 1.5, 0.2), strict=True)]}
        ),
        errata=errata,
        neighbours=(Neighbour(instead, {"change": wrong}),),
        home=__name__,
    )
    def check(cells: Sequence[CellResult], change: str = right) -> Finding:
        worst = max(cell.result[change] for cell in cells)
        shows = {
            _TURNED: not any(cell.result["row fits"] for cell in cells),
            _OLD: max(cell.result["old code"] for cell in cells) > TIGHT,
        }
        numbers: dict[str, float | str] = {"settings": len(cells), "largest change": worst}
        fits = all(cell.result["column fits"] for cell in cells)
        return holds_if(
            worst <= TIGHT and fits, numbers, shows={erratum.shown_by: shows[erratum.shown_by] for erratum in errata}
        )

    return check


def _unit(printed: str, right: str) -> Erratum:
    return typographical(
        slip="transposed unit vector",
        shown_by=_TURNED,
        printed=printed,
        right=right,
        why=r"An entry of a matrix $M$ is $u_k^\top M u_j$; $M u_j^\top$ is not defined for a column $u_j$.",
    )


_symmetry(
    "Lemma E.10",
    "Flipping the sign of a row of $E$, that is, of one coordinate of all encodings, changes neither a weight nor "
    r"$E_y^\top E_y$.",
    "row flipped",
    "position flipped",
    "flipping the sign of one position's encoding changes no weight",
)
_symmetry(
    "Lemma E.11",
    r"Exchanging two rows of $E$, that is, two coordinates of all encodings, changes neither a weight nor $E_y^\top "
    "E_y$.",
    "rows exchanged",
    "positions exchanged",
    "exchanging the encodings of two positions changes no weight",
    (
        typographical(
            at="Lemma E.11, proof",
            shown_by=_OLD,
            printed=r"$(E')^\top e_y = E^\top R_{i j}^\top R_{i j} E_y (\ldots)^{-1} \mathbf{1}_q$.",
            right=r"$(E')^\top e'_y$, with the code of $E'$, as in the proof of Lemma E.10.",
            why="The code changes with the encodings; $e_y$ itself has other products with $E'$. (This erratum rests "
            "on a single character of the text that we read.)",
        ),
    ),
)
_symmetry(
    "Lemma E.12",
    r"In the mean over valid encodings, $f(S_y) e_i e_y^\top$ has zeros off the diagonal, for every function $f$.",
    "off",
    "single",
    "for every single encoding",
    (
        _unit(
            r"$u_k^\top E[f(S_y(E)) e_i e_y^\top] u_j^\top = 0$ for $j \ne k$.",
            r"$u_k^\top E[f(S_y(E)) e_i e_y^\top] u_j = 0$.",
        ),
    ),
)
_symmetry(
    "Lemma E.13",
    r"In the mean over valid encodings, $f(S_y) e_i e_y^\top$ has equal entries on the diagonal, for every function "
    "$f$.",
    "apart",
    "single apart",
    "for every single encoding",
    (
        _unit(
            r"$u_k^\top E[f(S_y(E)) e_i e_y^\top] u_k^\top = u_j^\top E[f(S_y(E)) e_i e_y^\top] u_j^\top$.",
            r"$u_k$ and $u_j$ on the right, not transposed.",
        ),
    ),
)
