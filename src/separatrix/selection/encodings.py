"""Positional encodings: one-hot, near-orthogonal random signs by rejection, and the code e_y of a subset.

Definitions 2.2 and 2.3 of Wang, Wei, Hsu and Lee. An encoding is a tensor E of shape (T, width) whose rows are the
vectors e_i (the paper's E is its transpose; width is its d_e). The code of a subset,

    e_y = E_y (E_y^T E_y)^{-1} 1_q = sum_{j in y} g_j e_j,    so that <e_i, e_y> = 1 for i in y,

has the same formula for every encoding: for one-hot it is the sum of the e_j.

We understand the rejection of Appendix F as follows. Random columns are drawn one after another; a column is kept if
its dot product with every kept column is at most the threshold in magnitude, until T are kept. Conditioning all T
columns at once, as Definition 2.5 does, gives the same law up to the probability that a matrix contains a conflict:
0.2% at T = 200, width 170 and threshold 0.4.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import SeparatrixError
from separatrix.selection.arguments import seeded
from separatrix.selection.thresholds import MOST_CANDIDATES, feasible_limit


@dataclass(frozen=True)
class NearOrthogonal:
    """Random encodings whose dot products are within a threshold.

    Attributes:
        E: the encodings, with entries +-1/sqrt(width), of shape (T, width), or (count, T, width).
        threshold: the largest |<e_i, e_j>| that is allowed.
        candidates: how many random columns were drawn.
        rejected: how many of them were rejected.
    """

    E: Tensor
    threshold: float
    candidates: int
    rejected: int

    @property
    def rejection_rate(self) -> float:
        """The share of the candidates that were rejected."""
        return self.rejected / self.candidates


def one_hot_encoding(T: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """The one-hot encoding (Definition 2.2): e_i is the i-th unit vector.

    >>> one_hot_encoding(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return torch.eye(whole("T", T, low=1), dtype=dtype)


def near_orthogonal_encoding(
    T: int, width: int, *, threshold: float, generator: torch.Generator | int, dtype: torch.dtype = torch.float32
) -> NearOrthogonal:
    """Draw T vectors of {+-1/sqrt(width)}^width with |<e_i, e_j>| <= threshold (Definition 2.3), by rejection.

    Args:
        T: the number of vectors.
        width: the dimension of the vectors.
        threshold: the largest |<e_i, e_j>| that is allowed.
        generator: the source of randomness, or a seed.
        dtype: the type of the encoding.

    Raises:
        ArgumentError: if no encoding can satisfy the threshold, or rejection would draw too many candidates (see
            `separatrix.selection.thresholds`).

    Example:
        >>> drawn = near_orthogonal_encoding(8, 16, threshold=0.5, generator=0)
        >>> gram = drawn.E @ drawn.E.T
        >>> (gram - torch.eye(8)).abs().max().item() <= 0.5, drawn.candidates - drawn.rejected
        (True, 8)
    """
    stack = near_orthogonal_stack(1, T, width, threshold=threshold, generator=generator, dtype=dtype)
    return NearOrthogonal(stack.E[0], threshold, stack.candidates, stack.rejected)


def near_orthogonal_stack(
    count: int,
    T: int,
    width: int,
    *,
    threshold: float,
    generator: torch.Generator | int,
    dtype: torch.dtype = torch.float32,
) -> NearOrthogonal:
    """Draw several independent encodings as `near_orthogonal_encoding` does; `E` has the shape (count, T, width).

    Args:
        count: the number of encodings.
        T: the number of vectors of each.
        width: the dimension of the vectors.
        threshold: the largest |<e_i, e_j>| that is allowed.
        generator: the source of randomness, or a seed.
        dtype: the type of the encodings.

    Raises:
        ArgumentError: if no encoding can satisfy the threshold, or rejection would draw too many candidates.
    """
    count, T, width = whole("count", count, low=1), whole("T", T, low=1), whole("width", width, low=1)
    limit, source = feasible_limit(T, width, threshold), seeded(generator)
    signs = random_signs(count * T, width, source).reshape(count, T, width)
    candidates = sum(resolve_conflicts(matrix, limit, source)[1] for matrix in signs)
    return NearOrthogonal(signs.to(dtype) / math.sqrt(width), threshold, candidates, candidates - count * T)


def resolve_conflicts(signs: Tensor, limit: int, source: torch.Generator) -> tuple[Tensor, int]:
    """Replace, in place, the rows of T candidates that conflict with earlier rows, until no two rows conflict.

    One matrix product shows that there is no conflict, which is the usual case at large thresholds. Dot products of
    signs are integers, exact in float32.

    Args:
        signs: the candidates as signs, of shape (T, width).
        limit: two rows conflict if their dot product is larger than this in magnitude.
        source: the source of further candidates.

    Returns:
        The dot products of all rows, of shape (T, T), and how many candidates were drawn.
    """
    dots = signs @ signs.mT
    dots.fill_diagonal_(0)
    read = len(signs)
    if max(float(dots.amax()), -float(dots.amin())) > limit:
        kept, read = _kept(signs, dots.abs() > limit, limit, source)
        dots = torch.mm(kept, kept.mT, out=dots)
        signs.copy_(kept)
    return dots.fill_diagonal_(signs.shape[1]), read


def _kept(signs: Tensor, conflict: Tensor, limit: int, source: torch.Generator) -> tuple[Tensor, int]:
    """Apply rejection to these T vectors and then to further draws, until T vectors are kept; return them and the
    number of vectors that were drawn.

    A candidate is rejected when it conflicts with an earlier one that was kept, so only the conflicting pairs need to
    be examined, in the order of their later member.
    """
    T, width = signs.shape
    rejected: set[int] = set()
    for later, earlier in conflict.tril().nonzero().tolist():
        if earlier not in rejected:
            rejected.add(later)
    kept = signs[[i for i in range(T) if i not in rejected]]
    read = T
    while len(kept) < T:
        if read > 16 * MOST_CANDIDATES * T:
            raise SeparatrixError(
                f"near_orthogonal_encoding: rejection has kept {len(kept)} of {T} columns after {read} candidates of "
                f"width {width}. Choose a larger threshold."
            )
        fresh = random_signs(1, width, source)
        read += 1
        if (kept @ fresh[0]).abs().max() <= limit:
            kept = torch.cat([kept, fresh])
    return kept, read


def random_signs(rows: int, width: int, generator: torch.Generator) -> Tensor:
    """Draw independent fair signs as float32, (rows, width), from one random bit each.

    >>> random_signs(2, 3, torch.Generator().manual_seed(0)).abs().sum().item()
    6.0
    """
    total = rows * width
    words = torch.empty(-(-total // 64), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    octets = words.view(torch.uint8).to(torch.int32)
    return torch.index_select(_signs_of_octet(), 0, octets).flatten()[:total].reshape(rows, width)


@functools.cache
def _signs_of_octet() -> Tensor:
    """A table whose row b has the eight bits of b as signs."""
    return ((torch.arange(256).unsqueeze(1) >> torch.arange(8)) & 1) * 2.0 - 1.0


def subset_weights(E: Tensor, y: Tensor) -> Tensor:
    """The weights g = (E_y^T E_y)^{-1} 1_q of the encodings in the code of each subset.

    They are computed by elimination without pivoting, with a few vector operations for the whole batch: the matrix is
    positive definite if the q encodings are linearly independent.

    Args:
        E: the encoding, of shape (T, width).
        y: the subsets, of shape (..., q).

    Returns:
        The weights, of shape (..., q).

    Raises:
        SeparatrixError: if the encodings of a subset are linearly dependent.

    Example:
        >>> subset_weights(torch.eye(4), torch.tensor([0, 2]))
        tensor([1., 1.])
        >>> subset_weights(torch.ones(4, 3), torch.tensor([0, 2]))
        Traceback (most recent call last):
            ...
        separatrix.errors.SeparatrixError: subset_weights: the encodings of the subset [0, 2] are linearly dependent.
    """
    E_y = E[y]
    return solved_weights(E_y @ E_y.mT, y)


def solved_weights(gram: Tensor, y: Tensor) -> Tensor:
    """The solutions g, (..., q), of gram g = 1 for the Gram matrices (..., q, q) of the subsets y (..., q)."""
    q = y.shape[-1]
    rows = [torch.cat([gram[..., i, :], torch.ones_like(gram[..., i, :1])], -1) for i in range(q)]
    for i in range(q):
        pivot = rows[i][..., i : i + 1]
        # In exact arithmetic a pivot is the squared distance of e_i to the span of the encodings before it.
        singular = pivot.squeeze(-1) <= 4 * q * torch.finfo(gram.dtype).eps * gram[..., i, i]
        if singular.any():
            subset = y[singular][0].tolist()
            raise SeparatrixError(f"subset_weights: the encodings of the subset {subset} are linearly dependent.")
        rows[i] = rows[i] / pivot
        for k in range(q):
            if k != i:
                rows[k] = rows[k] - rows[k][..., i : i + 1] * rows[i]
    return torch.stack([row[..., q] for row in rows], -1)


def subset_code(E: Tensor, y: Tensor) -> Tensor:
    """The code e_y = E_y (E_y^T E_y)^{-1} 1_q of each subset.

    Args:
        E: the encoding, of shape (T, width).
        y: the subsets, of shape (..., q).

    Returns:
        The codes, of shape (..., width).

    Example:
        >>> E = near_orthogonal_encoding(8, 32, threshold=0.5, generator=0, dtype=torch.float64).E
        >>> torch.allclose((E @ subset_code(E, torch.tensor([1, 5])))[[1, 5]], torch.ones(2, dtype=torch.float64))
        True
    """
    return (E[y] * subset_weights(E, y).unsqueeze(-1)).sum(-2)
