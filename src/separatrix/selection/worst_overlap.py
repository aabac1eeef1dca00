r"""The largest overlap <e_i, e_y> of a position outside a subset with the subset's code, over all valid encodings.

A transformer W = C W* selects the subset y in the limit of large C if and only if every overlap of a position outside y
is below 1. Over the encodings by unit vectors that have the (q, delta)-property of Definition A.1 of Wang, Wei, Hsu and
Lee, the largest overlap of e_y = E_y (E_y^T E_y)^{-1} 1 is exactly

    delta sqrt(q) / (1 - a),  a = delta (q - 1) / (q (q - 2)) for q >= 3,  delta / sqrt(2) for q = 2,  0 for q = 1.

It is attained if the q encodings of y have the products -a / (q - 1) with each other and delta / sqrt(q) with e_i. It
exceeds 1 for q above about 1 / delta^2: a bound on delta is not sufficient. docs/derivations/proofs.md has the proof.

The dual vector of Candes and Tao (Decoding by Linear Programming, Lemma 2.2) is another code of the subset, whose
overlaps are at most delta (1 - 2 delta) / ((1 - delta) (1 - 3 delta)) for every q.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError


def worst_overlap(q: int, delta: float) -> float:
    """The largest overlap |<e_i, e_y>| over encodings by unit vectors that have the (q, delta)-property.

    Args:
        q: the number of positions in a subset.
        delta: the constant of Definition A.1, positive and at most (q - 2) / (2 (q - 1)) if q is 3 or more, which is
            1/4 at q = 3 and tends to 1/2; at most 1/2 if q is 1 or 2.

    Example:
        >>> [round(worst_overlap(q, 0.0999), 4) for q in (2, 50, 99, 256)]
        [0.152, 0.7078, 0.995, 1.599]
    """
    q, delta = _checked(q, delta)
    return delta * math.sqrt(q) / (1 - _lean(q, delta))


def worst_overlap_encoding(q: int, delta: float, T: int) -> Tensor:
    """An encoding (T, T) in float64 with constant delta in which position q has the worst overlap with 0, ..., q - 1.

    The encodings of the other positions are orthogonal to each other and to these.

    Args:
        q: the number of positions in a subset.
        delta: the constant of Definition A.1, as for `worst_overlap`.
        T: the number of positions, above q.

    Example:
        >>> from separatrix.selection.construction import overlaps
        >>> E = worst_overlap_encoding(3, 0.1, T=6)
        >>> expected = torch.tensor([worst_overlap(3, 0.1), 0, 0], dtype=torch.float64)
        >>> bool((overlaps(E, torch.arange(3)) - expected).abs().max() < 1e-12)
        True
    """
    q, delta = _checked(q, delta)
    T = whole("T", T, low=q + 1)
    gram = torch.eye(T, dtype=torch.float64)
    if q > 1:
        gram[:q, :q] = -_lean(q, delta) / (q - 1)
        gram.fill_diagonal_(1.0)
    gram[q, :q] = gram[:q, q] = delta / math.sqrt(q)
    factor: Tensor = torch.linalg.cholesky(gram)
    return factor


def dual_overlap(delta: float) -> float:
    """A bound, for every q, on the overlaps of the dual vector of Candes and Tao with a constant delta below 1/3.

    Example:
        >>> round(dual_overlap(0.1), 4)
        0.127
    """
    if not 0 < delta < 1 / 3:
        raise ArgumentError("delta", expected="a number between 0 and 1/3", got=delta)
    return delta * (1 - 2 * delta) / ((1 - delta) * (1 - 3 * delta))


def _checked(q: int, delta: float) -> tuple[int, float]:
    q = whole("q", q, low=1)
    most = (q - 2) / (2 * (q - 1)) if q > 2 else 0.5
    if not 0 < delta <= most:
        raise ArgumentError("delta", expected=f"a positive number up to {most:.4g} at q = {q}", got=delta)
    return q, delta


def _lean(q: int, delta: float) -> float:
    """1 minus the eigenvalue of E_y^T E_y at the vector of ones, in the worst case."""
    if q > 2:
        return delta * (q - 1) / (q * (q - 2))
    return delta / math.sqrt(2) if q == 2 else 0.0
