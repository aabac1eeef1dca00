"""The polynomial that near-linear attention expands, and the sums of this expansion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.cost import chunk_tokens


@dataclass(frozen=True)
class Expansion:
    """sum over alpha in `index_set` of coefficients[alpha] q^alpha k_1^alpha ..., in the coordinates of `frame`.

    The coefficients are in float64 whatever the dtype of the coordinates: 1 / alpha! is below the range of float32 from
    degree 34 on, where its terms may still be large. `moment` is the level whose sum over tuples, sum_t s_t^moment, is
    computed in addition to the output; None for no such level.
    """

    frame: Frame
    index_set: IndexSet
    coefficients: Tensor
    moment: int | None

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which monomials are computed."""
        return self.frame.dtype

    def wide(self) -> Expansion:
        """The expansion with its monomials in float64."""
        return replace(self, frame=replace(self.frame, dtype=torch.float64))

    def even_chunk(self, heads: int, length: int) -> int:
        """The number of tokens in a chunk when `length` tokens are cut into as few, equally long chunks as possible.

        It is a multiple of 64. A long sequence has at least two chunks, so that the second one reuses the memory of the
        first.
        """
        most, length = chunk_tokens(heads, self.index_set.rank, self.dtype == torch.float64), max(length, 1)
        pieces = max(-(-length // most), min(2, length // 2048), 1)
        return min(-(-length // (64 * pieces)) * 64, most, length)

    def moment_weights(self) -> Tensor:
        """The weights (rank,) that make the sums of a level those of s^moment; zero for the other levels."""
        weights = torch.zeros_like(self.coefficients)
        if self.moment is not None:
            level = slice(*self.index_set.levels[self.moment])
            weights[level] = torch.from_numpy(self.index_set.multinomials[level]).to(weights)
        return weights


@dataclass(frozen=True)
class Sums:
    """For each query: the output (H, L_q, d_v), the denominator and the moment (H, L_q) in float64."""

    output: Tensor
    denominator: Tensor
    moment: Tensor


def with_ones(value: Tensor, mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """[V, 1]^T (H, d_v + 1, c), with zeros for hidden tokens."""
    heads, length, d_v = value.shape
    widened = value.new_empty(heads, d_v + 1, length, dtype=dtype)
    widened[:, :d_v] = value.mT
    widened[:, d_v] = 1.0
    return widened if mask is None else widened.masked_fill_(~mask.unsqueeze(1), 0.0)
