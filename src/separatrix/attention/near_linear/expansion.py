"""The polynomial that near-linear attention expands, and the sums of the expansion."""

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
    degree 34 on, where its terms may still be large. They may end before the last level, which is then there for the
    moment alone.

    Attributes:
        frame: The coordinates.
        index_set: The multi-indices.
        coefficients: The coefficients of the monomials, (terms,).
        moment: The level whose sum over tuples, sum_t s_t^moment, is computed in addition to the output; None for none.
        squares: For each key set u_m (H, L_m, columns), of which sum_t s_t^moment prod_m u_m is computed too; or none.
    """

    frame: Frame
    index_set: IndexSet
    coefficients: Tensor
    moment: int | None
    squares: tuple[Tensor, ...] = ()

    @property
    def terms(self) -> int:
        """The number of multi-indices that have a coefficient, the first ones of the index set."""
        return self.coefficients.shape[0]

    @property
    def weighted(self) -> int:
        """The number of columns of `squares`."""
        return self.squares[0].shape[2] if self.squares else 0

    @property
    def level(self) -> tuple[int, int]:
        """The half-open range of the rows of the moment's level."""
        return (0, 0) if self.moment is None else self.index_set.levels[self.moment]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which monomials are computed."""
        return self.frame.dtype

    def wide(self) -> Expansion:
        """The expansion with its monomials in float64."""
        return replace(self, frame=replace(self.frame, dtype=torch.float64))

    def even_chunk(self, heads: int, length: int) -> int:
        """The number of tokens in a chunk when `length` tokens are divided into the smallest number of chunks of equal
        length.

        It is a multiple of 64. A long sequence has at least two chunks, so that the second one reuses the memory of the
        first.
        """
        most, length = chunk_tokens(heads, self.index_set.rank, self.dtype == torch.float64), max(length, 1)
        pieces = max(-(-length // most), min(2, length // 2048), 1)
        return min(-(-length // (64 * pieces)) * 64, most, length)

    def all_coefficients(self) -> Tensor:
        """The coefficients (rank,), with zeros for the multi-indices that have none."""
        return torch.nn.functional.pad(self.coefficients, (0, self.index_set.rank - self.terms))

    def moment_weights(self) -> Tensor:
        """The weights (rank,) for which the sums of a level become those of s^moment; zero for the other levels."""
        weights, level = self.coefficients.new_zeros(self.index_set.rank), slice(*self.level)
        weights[level] = torch.from_numpy(self.index_set.multinomials[level]).to(weights)
        return weights

    def of_set(self, m: int, here: slice) -> Tensor | None:
        """The squares of some tokens of key set m, if there are any."""
        return self.squares[m][:, here] if self.squares else None


@dataclass(frozen=True)
class Sums:
    """For each query: the output (H, L_q, d_v), the denominator and the moment (H, L_q) in float64.

    `weighted` (H, L_q) is the largest sum_t s_t^moment u_t over the columns u of the squares; None without squares.
    """

    output: Tensor
    denominator: Tensor
    moment: Tensor
    weighted: Tensor | None = None


def with_ones(value: Tensor, mask: Tensor | None, dtype: torch.dtype, squares: Tensor | None = None) -> Tensor:
    """[V, 1, squares]^T (H, d_v + 1 + columns, c), with zeros for masked tokens."""
    heads, length, d_v = value.shape
    columns = 0 if squares is None else squares.shape[2]
    widened = value.new_empty(heads, d_v + 1 + columns, length, dtype=dtype)
    widened[:, :d_v] = value.mT
    widened[:, d_v] = 1.0
    if squares is not None:
        widened[:, d_v + 1 :] = squares.mT
    return widened if mask is None else widened.masked_fill_(~mask.unsqueeze(1), 0.0)
