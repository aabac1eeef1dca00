r"""The matching tasks: find the positions that are part of a pair, a triple, a k-tuple that sums to zero modulo M.

    Match_k(x)_i = 1  iff  there are j_1, ..., j_{k-1} with  x_i + x_{j_1} + ... + x_{j_{k-1}} = 0  (mod M)

Match2 and Match3 are the tasks of Clayton Sanford, Daniel Hsu and Matus Telgarsky, "Representational strengths and
limitations of transformers", by which Josh Alman and Zhao Song, "How to Capture Higher-order Correlations?
Generalizing Matrix Softmax Attention to Kronecker Computation", introduce order-3 attention. Positions may repeat, and
i itself may be among the j: the same token three times is a triple.

>>> x = torch.tensor([1, 2, 4, 8])
>>> match_labels(x, 10, order=2).tolist()
[False, True, False, True]
>>> match_labels(x, 10, order=3).tolist()
[True, True, True, True]
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError

LARGEST_MODULUS = 1 << 31
"""The largest modulus: the product of two residues is below 2^62, which an int64 can hold."""


def match_by_definition(x: Tensor, modulus: int, order: int) -> Tensor:
    """The answers Match_k by trying every tuple, with n^k additions.

    Args:
        x: one row of tokens, integers of shape (n,).
        modulus: M.
        order: k.

    Returns:
        A bool tensor of shape (n,).

    Example:
        >>> match_by_definition(torch.tensor([1, 1, 5]), 7, order=3).tolist()
        [True, True, True]
    """
    modulus, order, x = checked(x, modulus, order)
    if x.dim() != 1:
        raise ArgumentError("x", expected="one row of tokens, shape (n,)", got=f"shape {tuple(x.shape)}")
    tokens = x.tolist()
    return torch.tensor(
        [
            any((first + sum(rest)) % modulus == 0 for rest in itertools.product(tokens, repeat=order - 1))
            for first in tokens
        ],
        dtype=torch.bool,
        device=x.device,
    )


def match_labels(x: Tensor, modulus: int, order: int) -> Tensor:
    """The answers Match_k for each row of x, by a faster algorithm than the definition.

    With S_a the set of all sums of a tokens modulo M, position i has a match iff -x_i - s is in S_b for some s in S_a,
    where a + b = k - 1. If a and b differ by at most one, this takes n |S_a| binary searches in the sorted S_b: O(n^2
    log n) at order 3.

    Args:
        x: rows of tokens, integers of shape (..., n).
        modulus: M.
        order: k.

    Returns:
        A bool tensor of the shape of x.
    """
    modulus, order, x = checked(x, modulus, order)
    rows = x.reshape(-1, x.shape[-1]) if x.numel() else x.new_zeros(0, max(1, x.shape[-1]))
    labels = [_labels_of_row(row, modulus, order) for row in rows]
    return torch.stack(labels).reshape(x.shape) if labels else torch.zeros_like(x, dtype=torch.bool)


def _labels_of_row(row: Tensor, modulus: int, order: int) -> Tensor:
    values, place = row.unique(return_inverse=True)
    near, far = (order - 1) // 2, order // 2
    sums = [values.new_zeros(1)]
    for _ in range(far):
        sums.append(((sums[-1].unsqueeze(1) + values) % modulus).unique())
    targets = (-values.unsqueeze(1) - sums[near]) % modulus
    at = torch.searchsorted(sums[far], targets).clamp(max=len(sums[far]) - 1)
    labels: Tensor = (sums[far][at] == targets).any(1)
    return labels[place]


def checked(x: Tensor, modulus: int, order: int) -> tuple[int, int, Tensor]:
    """The modulus, the order, and the tokens as int64 residues in [0, M); an error if one of them is invalid."""
    modulus = whole("modulus", modulus, low=2, high=LARGEST_MODULUS)
    order = whole("order", order, low=2)
    if not isinstance(x, Tensor) or x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool:
        got = str(x.dtype) if isinstance(x, Tensor) else type(x).__name__
        raise ArgumentError("x", expected="a tensor of integers", got=got)
    if x.dim() == 0:
        raise ArgumentError("x", expected="tokens in the last dimension, shape (..., n)", got="shape ()")
    return modulus, order, x.to(torch.int64) % modulus
