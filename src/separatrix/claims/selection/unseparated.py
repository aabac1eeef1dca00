r"""Valid encodings with delta < 1/10 in which one position has an overlap above 1 with the codes of nearly all subsets.

The encodings of all positions but the last are orthonormal, and the last encoding has the products p_j with them, so
that the Gram matrix minus the identity has one nonzero row and column. Its constant in Definition A.1 of Wang, Wei, Hsu
and Lee is the norm of the 2 q largest p_j. For a subset y without the last position e_y is the sum of its encodings:
the last position has the overlap sum_{j in y} p_j, and all others have 0. If this overlap is 1 or more, the last
position has at least the weight s_+ of a position of y for every C >= 0, and no alpha makes |Y/q - alpha S_y|^2 smaller
than

    min_z q (1/q - z)^2 + z^2 = 1 / (q (q + 1)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Erratum, Rank
from separatrix.claims.selection.proof_chain import Floats
from separatrix.errors import ArgumentError
from separatrix.lab.registry import experiment

SHOWN = "a valid encoding with overlaps above 1 keeps the loss above epsilon"
_SCALES = (5.0, 20.0, 40.0)


def unseparated(at: str, printed: str, consequence: str = "") -> Erratum:
    """The erratum at a place that claims convergence of the loss to 0 for every delta < 1/10.

    `consequence` is added to the reason where the paper claims more than convergence.
    """
    return Erratum(
        rank=Rank.STATEMENT,
        at=at,
        slip="overlaps of valid encodings",
        shown_by=SHOWN,
        printed=printed,
        right=r"The largest overlap over encodings with the $(q, \delta)$-property must be below 1: $\delta \sqrt{q} < "
        r"1 - \frac{\delta (q - 1)}{q (q - 2)}$ for $q \ge 3$. At $\delta < 1/10$ this holds for $q \le 99$, and $q < "
        r"(1 / \delta - 1)^2$ is enough. With the dual vector of Lemma 2.2 of Candes and Tao as the subset's code "
        r"the overlaps are below 0.13 for every $q$, and $d_e = \Theta(q \log T / \delta^2)$ stays.",
        why=r"By Lemma A.3, corrected, overlaps grow as $\delta \sqrt{q}$. At $q = 256$, $T = 1025$, let one "
        r"encoding have the product $0.0999 / \sqrt{512}$ with all others, which are orthonormal: then $\delta = "
        r"0.0999$, the overlap is $1.13$, and that position has a larger weight than those of the subset for every "
        r"$C > 0$. For every $\alpha$ and $C \ge 0$ the loss is at least $\frac{d (T - q)}{2 T q (q + 1)}$. Where "
        r"such encodings have a positive probability, the loss of the mean over encodings does not tend to 0 either."
        + consequence,
    )


def leaning_products(kind: Literal["equal", "signs"], q: int, T: int, lean: float, width: int, seed: int) -> Floats:
    """The products p_j of the last encoding with the T - 1 orthonormal ones.

    "equal": all products are `lean`. "signs": the orthonormal encodings are distinct rows of the Hadamard matrix of
    order `width`, chosen at random, and the last has signs of expectation `lean` times the column sums of these rows,
    but 1 in the first column, where all rows agree. So each product has the expectation `lean`, up to a difference of
    at most T `lean` / width, and a standard deviation of about 1 / sqrt(width).
    """
    if kind == "equal":
        if lean * lean * (T - 1) > 1:
            raise ArgumentError("lean", expected="at most 1 / sqrt(T - 1)", got=lean)
        return np.full(T - 1, lean)
    source = np.random.default_rng(seed)
    rows = source.choice(width, T - 1, replace=False)
    chosen = np.zeros(width)
    chosen[rows] = 1.0
    means = lean * hadamard_transform(chosen)
    means[0] = 1.0
    if np.abs(means).max() > 1:
        raise ArgumentError("lean", expected=f"at most {lean / np.abs(means[1:]).max():.3g} for these rows", got=lean)
    signs = np.where(source.random(width) < (1 + means) / 2, 1.0, -1.0)
    products: Floats = hadamard_transform(signs)[rows] / width
    return products


def hadamard_transform(values: Floats) -> Floats:
    """The product of the Hadamard matrix of order len(values), a power of 2, with a vector.

    >>> hadamard_transform(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [10.0, -2.0, -4.0, 0.0]
    """
    values, half = values.copy(), 1
    while half < len(values):
        pairs = values.reshape(-1, 2, half)
        values = np.concatenate([pairs[:, :1] + pairs[:, 1:], pairs[:, :1] - pairs[:, 1:]], 1).reshape(-1)
        half *= 2
    return values


@experiment(version=1, name="selection.unseparated")
def losses(
    kind: Literal["equal", "signs"], q: int, T: int, lean: float, width: int, seed: int
) -> dict[str, float | list[float]]:
    """Return lower bounds on the loss with such an encoding, in units of the largest epsilon that the theorems allow.

    The bounds are means over 400 subsets without the last position; subsets with it are counted with loss 0. `losses`
    are those at alpha = 1 and C = 5, 20, 40, and `best` those at the best alpha; `least` is the minimum over alpha and
    C from 0 to 60, and `proved` the bound above.
    """
    products = leaning_products(kind, q, T, lean, width, seed)
    delta = math.sqrt(float(np.sort(products**2)[-2 * q :].sum()))
    drawn = np.random.default_rng(seed).permuted(np.tile(products, (400, 1)), axis=1)
    overlap = drawn[:, :q].sum(1)
    unit = 100 * (T - q) * q / T
    share = (T - q) / T

    def at(C: float) -> tuple[float, float]:
        """The losses at alpha = 1 and at the best alpha."""
        logits = np.stack([np.zeros_like(overlap), np.full_like(overlap, -C), C * (overlap - 1)])
        top = logits.max(0)
        weights = np.exp(logits - top)
        total = q * weights[0] + (T - q - 1) * weights[1] + weights[2]
        inside = (weights[0] / total).mean()
        square = ((q * weights[0] ** 2 + (T - q - 1) * weights[1] ** 2 + weights[2] ** 2) / total**2).mean()
        fixed, best = 1 / q - 2 * inside + square, 1 / q - inside**2 / square
        return share * unit / 2 * float(fixed), share * unit / 2 * float(best)

    rows = [at(C) for C in _SCALES]
    least = min(at(C)[1] for C in np.linspace(0.0, 60.0, 241).tolist())
    return {
        "delta": delta,
        "overlap": float(overlap.min()),
        "losses": [loss for loss, _ in rows],
        "best": [loss for _, loss in rows],
        "least": least,
        "proved": share * unit / 2 / (q * (q + 1)),
    }


equal_cells = cell_grid(losses, {}, kind="equal", q=256, T=1025, lean=0.0999 / math.sqrt(512), width=1025)


signs_cells = cell_grid(losses, {}, kind="signs", q=512, T=2049, lean=0.0022, width=2**20)


def losses_stay_above(results: Sequence[CellResult]) -> tuple[bool, dict[str, float | str]]:
    """Return whether valid encodings keep the loss above the proved positive bound, and the numbers."""
    cells = [cell for cell in results if "proved" in cell.result]
    numbers: dict[str, float | str] = {}
    for cell in cells:
        name = f"q = {cell.parameters['q']}, {cell.parameters['kind']} products"
        numbers |= {
            f"{name}: delta and least overlap": f"{cell.result['delta']:.4f}, {cell.result['overlap']:.3f}",
            f"{name}: loss / largest epsilon at alpha = 1, C = 5, 20, 40": ", ".join(
                f"{loss:.4g}" for loss in cell.result["losses"]
            ),
            f"{name}: least loss / largest epsilon over alpha and C": cell.result["least"],
            f"{name}: proved bound on it": cell.result["proved"],
        }
    passed = all(
        cell.result["delta"] < 0.1
        and cell.result["overlap"] >= 1
        and cell.result["least"] >= cell.result["proved"] > 0
        and min(cell.result["best"][1:]) > 1
        for cell in cells
    )
    return passed and bool(cells), numbers
