"""Products with monomials by the kernels in Triton, which write none of them: for NVIDIA's GPUs, in float32.

The order of their sums is within what `expanded_sum` counts: a chunk's tokens in one chain and the chunks in float64, a
query's monomials in one chain. Products are fused multiply-adds of float32, correctly rounded, as NVIDIA documents
them. AMD's compiler would use matrix units, of which that is not known, so that plain PyTorch computes there, as it
does in float64. Derivatives are those of plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from separatrix.attention.dispatch import gpu
from separatrix.attention.dispatch.gpu import REGISTERS, padded, vendor
from separatrix.attention.polynomial.monomials import IndexSet

if TYPE_CHECKING:
    from separatrix.attention.polynomial.products import Products

WIDEST = 128
"""The largest number of columns of a state that the kernels take."""
ROWS, TOKENS = 32, 32
"""Monomials and tokens of a block."""
WARPS = {16: 4, 32: 4, 64: 8, 128: 8}
"""Warps of a program, for each padded number of columns."""


def takes(like: Tensor, columns: int) -> bool:
    """Whether the kernels compute with tensors like this one: of a GPU, in float32, with Triton installed."""
    wanted = like.device.type in gpu.DEVICES and like.dtype == torch.float32 and columns <= WIDEST
    plain = type(like) is Tensor and not torch._C._len_torch_dispatch_stack()
    return wanted and plain and vendor() == "cuda" and gpu.installed()


@lru_cache(maxsize=64)
def table(index_set: IndexSet) -> np.ndarray:
    """The coordinates of each monomial, (rank, degree), in ascending order; d where it has no more.

    >>> from separatrix.attention.polynomial.monomials import total_degree
    >>> table(total_degree(2, 2)).tolist()
    [[2, 2], [0, 2], [1, 2], [0, 0], [0, 1], [1, 1]]
    """
    rank, d = index_set.alphas.shape
    found = np.full((rank, max(index_set.degree, 1)), d, dtype=np.int32)
    for row, alpha in enumerate(index_set.alphas):
        listed = np.repeat(np.arange(d), alpha)
        found[row, : len(listed)] = listed
    return found


class GpuProducts:
    """The products of `Products`, by the kernels; derivatives by plain PyTorch.

    Args:
        index_set: The monomials.
        heads: The number of heads.
        columns: The columns of weights.
        like: A tensor of the device and the type of the monomials.
        plain: The same products in plain PyTorch, made when a derivative is asked for.
    """

    def __init__(
        self, index_set: IndexSet, heads: int, columns: int, like: Tensor, plain: Callable[[], Products]
    ) -> None:
        self._factors = torch.from_numpy(table(index_set)).to(like.device)
        self._shape, self._dimension, self._like = (heads, index_set.rank, columns), index_set.dimension, like
        self._make_plain = plain
        self._plain: Products | None = None

    def start(self) -> list[Tensor]:
        return [self._like.new_zeros(self._shape, dtype=torch.float64)]

    def add(self, state: list[Tensor], x: Tensor, W: Tensor) -> None:
        self._launch("add_state", self._shape[1], ROWS, x, W.contiguous(), state[0])

    def finish(self, state: list[Tensor]) -> Tensor:
        return state[0]

    def prepare(self, M: Tensor) -> list[Tensor]:
        return [M.to(self._like.dtype).contiguous()]

    def sums(self, x: Tensor, M: list[Tensor]) -> Tensor:
        out = x.new_empty(self._shape[0], self._shape[2], x.shape[2])
        self._launch("against_state", x.shape[2], TOKENS, x, M[0], out)
        return out

    def gradient(self, x: Tensor, M: list[Tensor], W: Tensor, state: list[Tensor] | None) -> tuple[Tensor, Tensor]:
        self._plain = self._plain or self._make_plain()
        if state is not None:
            self.add(state, x, W)
        if len(M) == 1:  # the form that plain PyTorch takes is made once, and kept behind that of the kernels
            M += self._plain.prepare(M[0])
        return self._plain.gradient(x, M[1:], W, None)

    def _launch(self, kernel: str, length: int, block: int, x: Tensor, weights: Tensor, into: Tensor) -> None:
        heads, rank, columns = self._shape
        if not heads or not length:
            return
        # Imported when it is first launched, because this imports Triton.
        program = getattr(import_module(f"separatrix.attention.polynomial.gpu.programs.{kernel}"), kernel)
        sizes = (rank, x.shape[2], self._dimension, self._factors.shape[1], columns)
        program[(heads * -(-length // block),)](
            x.contiguous(),
            self._factors,
            weights,
            into,
            *sizes,
            ROWS=ROWS,
            TOKENS=TOKENS,
            COLUMNS=padded(columns),
            num_warps=WARPS[padded(columns)],
            num_stages=1,
            maxnreg=REGISTERS["cuda"],
        )
