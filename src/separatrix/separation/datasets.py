r"""The paper's data sets, literally: Definition 3.8 (softmax regression), D.1 (self-attention), F.1 (cross-attention).

D0 and D1 differ in one number (a0 or a1, or whether one row is special); `a` stands for a0 or a1. What a definition
leaves open is drawn uniformly at random: the values of Ax in [log n, 1.4 log n], the special index j (j3), and j2.
Rows are counted from 0.

Definition F.1 places I_{d-1} in the "second column to d - 1 columns", which are only d - 2 columns. We read "the second
to the d-th", the only reading with which Lemma F.2 holds. When d - 2 (d - 1 in F.1) does not divide n, the stack of
identities is cut off after n rows; only a setting with `strict=False` allows that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AttentionInput:
    """One element {A_1, A_2, A_3} of D0 or D1 of Definition D.1 or F.1.

    Attributes:
        A1: A_1, of shape (n, d).
        A2: A_2, of shape (n, d).
        A3: A_3, of shape (n, d).
        special: the index j3.
        special_query: the index j2 in Definition F.1; in Definition D.1 it is j3 again.
    """

    A1: Tensor
    A2: Tensor
    A3: Tensor
    special: int
    special_query: int


@dataclass(frozen=True)
class RegressionInput:
    """One pair (A, x) of Definition 3.8.

    Attributes:
        A: the matrix A, of shape (n, d).
        x: the vector x, of shape (d,).
        special: the special index j for an element of D1, None for one of D0.
    """

    A: Tensor
    x: Tensor
    special: int | None


def generator_of(seed: int | torch.Generator) -> torch.Generator:
    """The generator for a seed; a generator is returned unchanged."""
    return seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)


def special_indices(n: int, count: int, seed: int | torch.Generator) -> list[int]:
    """Draw `count` independent indices out of n tokens, from 0 on.

    >>> special_indices(8, 2, seed=1)
    [5, 3]
    """
    return [int(index) for index in torch.randint(0, n, (count,), generator=generator_of(seed))]


def regression_input(n: int, generator: torch.Generator, *, special: int | None = None) -> RegressionInput:
    """Draw (A, x) with (Ax)_i uniform in [log n, 1.4 log n] and, if there is a special index j, (Ax)_j = 4 log n.

    The networks depend on A and x only through Ax, so d = 1 and x = 1 are general enough.

    Args:
        n: the number of tokens.
        generator: the source of randomness.
        special: the special index j for an element of D1, None for one of D0.

    Example:
        >>> data = regression_input(50, torch.Generator().manual_seed(0), special=7)
        >>> round(((data.A @ data.x)[7] / math.log(50)).item(), 12), data.A.shape
        (4.0, torch.Size([50, 1]))
    """
    Ax = math.log(n) * (1 + 0.4 * torch.rand(n, generator=generator, dtype=torch.float64))
    if special is not None:
        Ax[special] = 4 * math.log(n)
    return RegressionInput(Ax[:, None], torch.ones(1, dtype=torch.float64), special)


def self_attention_input(n: int, d: int, a: float, b: float, c: float, special: int) -> AttentionInput:
    """The element A_1 = A_2 = A_3 of Definition D.1: sqrt(log n) times the columns a e_{j3}, b stacked I_{d-2}, c ones.

    Args:
        n: the number of tokens.
        d: the width of a token.
        a: a0 or a1.
        b: the factor of the stacked identities.
        c: the factor of the ones.
        special: the index j3.

    Example:
        >>> (self_attention_input(4, 4, 3.0, 1.0, 2.0, special=2).A1 / math.log(4) ** 0.5).round().tolist()
        [[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 1.0, 2.0], [3.0, 1.0, 0.0, 2.0], [0.0, 0.0, 1.0, 2.0]]
    """
    A = torch.zeros(n, d, dtype=torch.float64)
    rows = torch.arange(n)
    A[special, 0] = a
    A[rows, 1 + rows % (d - 2)] = b
    A[:, d - 1] = c
    A *= math.sqrt(math.log(n))
    return AttentionInput(A, A, A, special, special)


def cross_attention_input(n: int, d: int, a: float, special_query: int, special: int) -> AttentionInput:
    """The element {A_1, A_2 = A_3} of Definition F.1: A_1 = log n (a e_{j2}, ones), A_2 = (e_{j3}, stacked I_{d-1}).

    Args:
        n: the number of tokens.
        d: the width of a token.
        a: a0 or a1.
        special_query: the index j2.
        special: the index j3.

    Example:
        >>> data = cross_attention_input(4, 3, 2.0, special_query=1, special=3)
        >>> (data.A1 / math.log(4)).tolist()
        [[0.0, 1.0, 1.0], [2.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
        >>> data.A2.tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    A1 = torch.full((n, d), math.log(n), dtype=torch.float64)
    A1[:, 0] = 0
    A1[special_query, 0] = a * math.log(n)
    A2 = torch.zeros(n, d, dtype=torch.float64)
    rows = torch.arange(n)
    A2[special, 0] = 1
    A2[rows, 1 + rows % (d - 1)] = 1
    return AttentionInput(A1, A2, A2, special, special_query)
