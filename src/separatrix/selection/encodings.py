"""Positional encodings: one-hot, near-orthogonal random signs by rejection, and the code e_y of a subset.

Definitions 2.2 and 2.3 of Wang, Wei, Hsu and Lee. An encoding is a tensor E of shape (T, width) whose rows are the
vectors e_i (the paper's E is its transpose; width is its d_e). The code of a subset,

    e_y = E_y (E_y^T E_y)^{-1} 1_q = sum_{j in y} g_j e_j,    so that <e_i, e_y> = 1 for i in y,

is the same formula for every encoding: for one-hot it is the sum of the e_j.

The rejection of Appendix F is read as follows. Random columns come one after another; a column is kept when its dot
product with every kept one is at most the threshold in magnitude, until T are kept. Conditioning all T columns at once,
as Definition 2.5 does, gives the same law up to the probability that a matrix holds a conflict: 0.2% at T = 200,
width 170 and threshold 0.4.
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
from separatrix.selection.thresholds import PATIENCE, met

__all__ = [
    "NearOrthogonal",
    "near_orthogonal_encoding",
    "near_orthogonal_stack",
    "one_hot_encoding",
    "random_signs",
    "settle",
    "solved_weights",
    "subset_code",
    "subset_weights",
]


@dataclass(frozen=True)
class NearOrthogonal:
    """Encodings that met the threshold. E: (T, width) or (count, T, width), entries +-1/sqrt(width)."""

    E: Tensor
    threshold: float
    candidates: int
    rejected: int

    @property
    def rejection_rate(self) -> float:
        """The rejected among the candidates read."""
        return self.rejected / self.candidates


def one_hot_encoding(T: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """e_i the i-th unit vector (Definition 2.2).

    >>> one_hot_encoding(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return torch.eye(whole("T", T, low=1), dtype=dtype)


def near_orthogonal_encoding(
    T: int,
    width: int,
    *,
    threshold: float,
    generator: torch.Generator | int,
    dtype: torch.dtype = torch.float32,
) -> NearOrthogonal:
    """T vectors of {+-1/sqrt(width)}^width with |<e_i, e_j>| <= threshold (Definition 2.3), by rejection.

    A threshold that geometry or patience rules out is refused: see `separatrix.selection.thresholds`.

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
    """`count` independent encodings at once: E is (count, T, width)."""
    count, T, width = whole("count", count, low=1), whole("T", T, low=1), whole("width", width, low=1)
    limit, source = met(T, width, threshold), seeded(generator)
    signs = random_signs(count * T, width, source).reshape(count, T, width)
    candidates = sum(settle(matrix, limit, source)[1] for matrix in signs)
    return NearOrthogonal(signs.to(dtype) / math.sqrt(width), threshold, candidates, candidates - count * T)


def settle(signs: Tensor, limit: int, source: torch.Generator) -> tuple[Tensor, int]:
    """Reject, in place, what conflicts among T candidates (T, width). Gives their dot products and how many were read.

    One product finds that there is no conflict, as at a mild threshold there nearly never is. Dot products of signs are
    integers, exact in float32.
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
    """The first T columns that rejection keeps of a stream that starts with these T candidates, and how many it read.

    A candidate is rejected when it conflicts with an earlier one that was kept, so only the conflicting pairs, in the
    order of their later member, need a look.
    """
    T, width = signs.shape
    rejected: set[int] = set()
    for later, earlier in conflict.tril().nonzero().tolist():
        if earlier not in rejected:
            rejected.add(later)
    kept = signs[[i for i in range(T) if i not in rejected]]
    read = T
    while len(kept) < T:
        if read > 16 * PATIENCE * T:
            raise SeparatrixError(
                f"near_orthogonal_encoding: {len(kept)} of {T} columns after {read} candidates of width {width}; "
                f"the threshold asks for more patience than rejection has."
            )
        fresh = random_signs(1, width, source)
        read += 1
        if (kept @ fresh[0]).abs().max() <= limit:
            kept = torch.cat([kept, fresh])
    return kept, read


def random_signs(rows: int, width: int, generator: torch.Generator) -> Tensor:
    """Independent fair signs as float32, (rows, width), a random bit each.

    >>> random_signs(2, 3, torch.Generator().manual_seed(0)).abs().sum().item()
    6.0
    """
    total = rows * width
    words = torch.empty(-(-total // 64), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    octets = words.view(torch.uint8).to(torch.int32)
    return torch.index_select(_signs_of_octet(), 0, octets).flatten()[:total].reshape(rows, width)


@functools.cache
def _signs_of_octet() -> Tensor:
    """Row b: the eight bits of b as signs."""
    return ((torch.arange(256).unsqueeze(1) >> torch.arange(8)) & 1) * 2.0 - 1.0


def subset_weights(E: Tensor, y: Tensor) -> Tensor:
    """g = (E_y^T E_y)^{-1} 1_q for E (T, width) and y (..., q): (..., q).

    Elimination without pivoting, a few vector operations whatever the batch: the matrix is positive definite when the
    q encodings are linearly independent, and a subset for which they are not is refused.

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
    """The solution of gram g = 1 for a stack (..., q, q) of Gram matrices of the subsets y (..., q)."""
    q = y.shape[-1]
    rows = [torch.cat([gram[..., i, :], torch.ones_like(gram[..., i, :1])], -1) for i in range(q)]
    for i in range(q):
        pivot = rows[i][..., i : i + 1]
        # In exact arithmetic a pivot is the squared distance of e_i to the span of the ones before it.
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
    """e_y = E_y (E_y^T E_y)^{-1} 1_q for E (T, width) and y (..., q): (..., width).

    >>> E = near_orthogonal_encoding(8, 32, threshold=0.5, generator=0, dtype=torch.float64).E
    >>> torch.allclose((E @ subset_code(E, torch.tensor([1, 5])))[[1, 5]], torch.ones(2, dtype=torch.float64))
    True
    """
    return (E[y] * subset_weights(E, y).unsqueeze(-1)).sum(-2)
