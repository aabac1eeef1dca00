"""Appends a few tokens to the states of a stream, or attends to the states, by the Triton kernels on a GPU.

The tokens of a call are summed before they are added to the state, as by the kernels in C++, and their roundings are
counted in the same way; monomials are summed in blocks, and then the blocks. Each call reads numbers from the GPU once:
the bounds on the tokens, and the magnitudes of the values or of the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import numbers
from separatrix.attention.dispatch.gpu import padded
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.triton.launch import Block, block_of, launch
from separatrix.attention.near_linear.triton.tables import tables


class TritonStream:
    """The calls of the kernels for the states of one plan; the arguments are those of `stream_kernels` in `backend`."""

    ONE_BY_ONE = False

    def __init__(
        self,
        index_set: IndexSet,
        coefficients: Tensor,
        factors: Sequence[float],
        heads: int,
        value_dim: int,
        most: float,
        norm: int,
    ) -> None:
        device = coefficients.device
        self._factors = list(torch.tensor(factors, dtype=torch.float64, device=device).split(1))
        self._tables, self._coefficients = tables(index_set, device), coefficients
        self._heads, self._columns, self._sets, self._most, self._norm = (
            heads,
            value_dim + 1,
            len(factors) - 1,
            most,
            norm,
        )

    def append(
        self, states: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor], checked: bool
    ) -> list[float] | None:
        sizes = [self._size(key) for key in keys] + [value.abs().amax().to(torch.float64) for value in values]
        found = numbers(torch.stack(sizes))
        beyond, largest = [not size <= self._most for size in found[: len(keys)]], found[len(keys) :]
        if (any(beyond) and not checked) or not all(map(math.isfinite, largest)):
            return None
        for state, key, value, factor in zip(states, keys, values, self._factors[1:], strict=True):
            given = (key.contiguous(), value.contiguous(), self._tables.factors, factor, state)
            self._launch("append_tokens", key.shape[-2], given)
        return [float(size) for size in largest]

    def attend(self, states: Sequence[Tensor], query: Tensor, checked: bool) -> tuple[Tensor, float] | None:
        length, blocks = query.shape[-2], -(-self._tables.rank // self._block("ask_states").rows)
        parts = self._coefficients.new_empty(self._heads, blocks, length, self._columns)
        given = (query.contiguous(), tuple(states), self._tables.factors, self._factors[0], self._coefficients, parts)
        self._launch("ask_states", length, given, SETS=self._sets)
        sums = parts.sum(1)
        out = sums[..., :-1] / sums[..., -1:]
        size, reached = numbers(torch.stack([self._size(query), out.abs().amax()]))
        if not size <= self._most and not checked:
            return None
        return out.to(query.dtype).reshape(*query.shape[:-1], self._columns - 1), reached

    def _size(self, tokens: Tensor) -> Tensor:
        """The largest entry or norm of tokens in float64, which a state compares with its bound."""
        wide = tokens.to(torch.float64)
        sizes = torch.linalg.vector_norm(wide, self._norm, dim=-1) if self._norm else wide.abs()
        return sizes.amax()

    def _block(self, kernel: str) -> Block:
        return block_of(kernel, torch.float64, padded(self._columns))

    def _launch(self, kernel: str, length: int, given: tuple[object, ...], **constants: int) -> None:
        block, found = self._block(kernel), self._tables
        sizes = (found.rank, length, found.dimension, found.degree, self._columns)
        constants = {"ROWS": block.rows, "COLUMNS": padded(self._columns), **constants}
        programs = self._heads * -(-found.rank // block.rows)
        launch(kernel, programs, *given, *sizes, **constants, warps=block.warps)
