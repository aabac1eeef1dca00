r"""Causal near-linear attention over a stretch of tokens, token by token, by the kernels in C++.

The kernels (csrc/scan.hpp) keep the states of a few monomials in registers and go over the tokens with them: each key
set's state gets its token's term, and the query meets the product of the states. So only the coordinates, values and
sums of the tokens are held, and not the running state of each token, as in plain PyTorch.

All is in float64. Tokens are added to a state one by one, from the first to the last, each by one fused
multiply-add; monomials are added up in one order, whatever the number of threads. The backward pass adds up the
gradient of a state one by one too, from the last query to the first. `Summing` counts the roundings of that.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.sums import Expansion
from separatrix.native import Scan, ScanGradients, ScanResults, done, function
from separatrix.native_tensors import addresses


def scan(
    expansion: Expansion, query: Tensor, x: list[Tensor], W: list[Tensor], Z: list[Tensor]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The sums (H, c, d_v + 1) of c tokens, their moments (H, c), and the states after them.

    Args:
        expansion: The polynomial.
        query: The coordinates (H, d', c) of the query, in float64.
        x: The coordinates (H, d', c) of each key set, in float64.
        W: The values and ones (H, d_v + 1, c) of each key set, in float64; zero for hidden tokens.
        Z: The states (H, rank, d_v + 1) of each key set before these tokens.
    """
    given = _Given(expansion, query, x, W, Z)
    heads, columns, length = W[0].shape
    sums = query.new_empty(heads, length, columns + 1)
    after = [torch.empty_like(z) for z in given.Z]
    results = ScanResults(sums.data_ptr(), addresses(after))
    done(function("separatrix_scan_forward", 2)(ctypes.byref(given.call), ctypes.byref(results)))
    return sums[..., :columns], sums[..., columns], after


def scan_keys(expansion: Expansion, x: list[Tensor], W: list[Tensor], Z: list[Tensor]) -> list[Tensor]:
    """The states after c tokens before the first query; `x` are the coordinates of the key sets alone."""
    given = _Given(expansion, None, x, W, Z)
    after = [torch.empty_like(z) for z in given.Z]
    results = ScanResults(None, addresses(after))
    done(function("separatrix_scan_forward", 2)(ctypes.byref(given.call), ctypes.byref(results)))
    return after


def scan_backward(
    expansion: Expansion,
    query: Tensor,
    x: list[Tensor],
    W: list[Tensor],
    Z: list[Tensor],
    grad: Tensor,
    grad_Z: list[Tensor],
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """The gradients of the query, of the keys, of the values and ones, and of the states before the tokens.

    Args:
        expansion: As in `scan`; so are query, x, W and Z.
        query: The coordinates of the query.
        x: The coordinates of the key sets.
        W: The values and ones.
        Z: The states before these tokens.
        grad: The gradient (H, c, d_v + 1) of the sums.
        grad_Z: The gradient of the states after the tokens.
    """
    given = _Given(expansion, query, x, W, Z)
    grad, grad_Z = grad.contiguous(), [z.contiguous() for z in grad_Z]
    grad_query = torch.empty_like(query, memory_format=torch.contiguous_format)
    grad_keys, grad_W, before = ([torch.empty_like(one) for one in ones] for ones in (given.x, given.W, given.Z))
    gradients = ScanGradients(
        grad.data_ptr(),
        addresses(grad_Z),
        grad_query.data_ptr(),
        addresses(grad_keys),
        addresses(grad_W),
        addresses(before),
    )
    done(function("separatrix_scan_backward", 2)(ctypes.byref(given.call), ctypes.byref(gradients)))
    return grad_query, grad_keys, grad_W, before


class _Given:
    """The arguments of a scan as the kernels take them, and the tensors that they point to; the query may be None."""

    def __init__(
        self, expansion: Expansion, query: Tensor | None, x: list[Tensor], W: list[Tensor], Z: list[Tensor]
    ) -> None:
        index_set = expansion.index_set
        self.query = None if query is None else query.contiguous()
        self.x, self.W, self.Z = ([one.contiguous() for one in ones] for ones in (x, W, Z))
        self._last, self._parents = (torch.from_numpy(a).contiguous() for a in (index_set.last, index_set.parents))
        self._coefficients, self._moments = expansion.coefficients.contiguous(), moments(index_set, expansion.moment)
        heads, columns, length = W[0].shape
        self.call = Scan(
            *(heads, len(W), length, index_set.dimension, columns, index_set.rank),
            *(self._last.data_ptr(), self._parents.data_ptr(), self._coefficients.data_ptr()),
            *(None if one is None else one.data_ptr() for one in (self._moments, self.query)),
            *(addresses(ones) for ones in (self.x, self.W, self.Z)),
        )


def moments(index_set: IndexSet, moment: int | None) -> Tensor | None:
    """The weights (rank,) that make a level's sums those of s^moment, zero for the other levels; None for none."""
    if moment is None:
        return None
    weights = torch.zeros(index_set.rank, dtype=torch.float64)
    level = slice(*index_set.levels[moment])
    weights[level] = torch.from_numpy(index_set.multinomials[level])
    return weights
