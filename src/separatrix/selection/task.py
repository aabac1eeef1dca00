"""The task of sparse token selection: given T tokens and the positions of q of them, return the average of those q.

    STS_q(X, y) = (1/q) sum_{j in y} x_j,    x_i ~ N(0, I_d) independent,    y uniform among the q-subsets of [T]

Definition 2.1 of Zixuan Wang, Stanley Wei, Daniel Hsu and Jason D. Lee, "Transformers Provably Learn Sparse Token
Selection While Fully-Connected Nets Cannot". Their X is d by T, and its columns are the tokens; ours, as in PyTorch, is
(..., T, d), and its rows are the tokens. Their positions are 1, ..., T; ours are 0, ..., T - 1, everywhere.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.selection.arguments import seeded, sizes


class Batch(NamedTuple):
    """Inputs and targets of n examples.

    Attributes:
        X: the tokens, of shape (n, T, d).
        y: the positions to average, ascending, of shape (n, q); (n, T, q) in the original task, whose inputs have T
            queries each.
        target: the averages, of shape (n, d); (n, T, d) in the original task.
    """

    X: Tensor
    y: Tensor
    target: Tensor


@dataclass(frozen=True)
class SparseTokenSelection:
    """The distribution D_{T,q} of Definition 2.1, and the original task that it simplifies.

    Args:
        T: the number of tokens.
        q: the number of tokens to average, from 1 to T.
        d: the dimension of a token.

    Example:
        >>> task = SparseTokenSelection(T=6, q=2, d=3)
        >>> X, y, target = task.batch(4, generator=0)
        >>> X.shape, y.shape, target.shape
        (torch.Size([4, 6, 3]), torch.Size([4, 2]), torch.Size([4, 3]))
        >>> torch.equal(target[0], X[0, y[0]].mean(0))
        True
    """

    T: int
    q: int
    d: int

    def __post_init__(self) -> None:
        sizes(self.T, self.q, self.d)

    def batch(self, n: int, *, generator: torch.Generator | int, dtype: torch.dtype = torch.float32) -> Batch:
        """Draw n independent examples; the same seed gives the same batch."""
        return self._draw(n, (), generator, dtype)

    def original_batch(self, n: int, *, generator: torch.Generator | int, dtype: torch.dtype = torch.float32) -> Batch:
        """Draw n examples of the original task qSA (Appendix A.2): T independent subsets per input, an output for each.

        Its loss is the sum over the T queries. Each of the T terms has the law of STS_q, so the loss of any model that
        computes the output of a query from (X, y_i) alone is T times its loss on STS_q, and so is every gradient.

        >>> SparseTokenSelection(T=6, q=2, d=3).original_batch(4, generator=0).target.shape
        torch.Size([4, 6, 3])
        """
        return self._draw(n, (self.T,), generator, dtype)

    def _draw(self, n: int, queries: tuple[int, ...], generator: torch.Generator | int, dtype: torch.dtype) -> Batch:
        source = seeded(generator)
        n = whole("n", n, low=1)
        X = torch.randn(n, self.T, self.d, generator=source, dtype=dtype)
        y = uniform_subsets(math.prod((n, *queries)), self.T, self.q, source).reshape(n, *queries, self.q)
        return Batch(X, y, subset_average(X, y))


def subset_average(X: Tensor, y: Tensor) -> Tensor:
    """The target STS_q(X, y): the mean of the tokens of X at the positions y.

    Args:
        X: the tokens, of shape (..., T, d).
        y: the positions, of shape (..., q), or (..., m, q) for m queries.

    Returns:
        The averages, of shape (..., d), or (..., m, d).

    Example:
        >>> subset_average(torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([0, 2])).item()
        3.5
    """
    queries = y if y.dim() == X.dim() else y.unsqueeze(-2)
    if queries.dim() != X.dim() or queries.shape[:-2] != X.shape[:-2]:
        raise ArgumentError(
            "y", expected=f"shape (..., q) or (..., m, q) over X of shape {tuple(X.shape)}", got=tuple(y.shape)
        )
    index = queries.flatten(-2).unsqueeze(-1).expand(*queries.shape[:-2], -1, X.shape[-1])
    picked = X.gather(-2, index).unflatten(-2, queries.shape[-2:])
    average: Tensor = picked.mean(-2).reshape(*y.shape[:-1], X.shape[-1])
    return average


def uniform_subsets(n: int, T: int, q: int, generator: torch.Generator | int) -> Tensor:
    """Draw n independent uniform q-subsets of {0, ..., T - 1}, each ascending: (n, q), int64.

    Each element is uniform among the positions that are still free: its rank among them is drawn, and then increased by
    one for each taken position that is not above it, in ascending order.

    >>> uniform_subsets(2, 5, 5, 0)
    tensor([[0, 1, 2, 3, 4],
            [0, 1, 2, 3, 4]])
    """
    T, q, _ = sizes(T, q)
    source = seeded(generator)
    taken = torch.empty(n, 0, dtype=torch.int64)
    for k in range(q):
        drawn = torch.randint(T - k, (n,), generator=source)
        for position in taken.unbind(1):
            drawn = drawn + (drawn >= position)
        taken = torch.cat([taken, drawn.unsqueeze(1)], 1).sort(1).values
    return taken


def all_subsets(T: int, q: int) -> Tensor:
    """All q-subsets of {0, ..., T - 1} in lexicographic order: (binom(T, q), q).

    >>> all_subsets(3, 2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    T, q, _ = sizes(T, q)
    return torch.tensor(list(itertools.combinations(range(T), q)), dtype=torch.int64)


def flatten_input(X: Tensor, y: Tensor) -> Tensor:
    """The input of a fully-connected net, (x_1, ..., x_T, y_1, ..., y_q): (..., T d + q).

    >>> flatten_input(torch.tensor([[1.5], [2.5], [6.5]]), torch.tensor([0, 2])).tolist()
    [1.5, 2.5, 6.5, 0.0, 2.0]
    """
    return torch.cat([X.flatten(-2), y.to(X.dtype)], -1)
