"""The tokens of a chunk side by side, as if they were heads: a lane for each thread.

The products of one head are thin, and PyTorch splits them badly between threads. One product for each thread needs no
splitting, and each thread finds the monomials it wrote in its own cache. The last lane is padded by tokens with x = 0
and W = 0: they add nothing to a state, and their results are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn.functional import pad

if TYPE_CHECKING:
    from separatrix.attention.polynomial.products import Products


class Lanes:
    """Products of `heads` heads by an `inner` one with `count` times as many."""

    def __init__(self, inner: Products, heads: int, count: int) -> None:
        self._inner, self._heads, self._count = inner, heads, count

    def _lay(self, x: Tensor) -> Tensor:
        """(H, c, n) to (H count, c, n / count), rounded up."""
        heads, rows, n = x.shape
        length = -(-n // self._count)
        if extra := length * self._count - n:
            x = pad(x, (0, extra))
        return x.reshape(heads, rows, self._count, length).transpose(1, 2).reshape(heads * self._count, rows, length)

    def _join(self, x: Tensor, n: int) -> Tensor:
        """Undo `_lay`: join the lanes, and drop all but the first n tokens."""
        _, rows, length = x.shape
        joined = x.reshape(self._heads, self._count, rows, length).transpose(1, 2)
        return joined.reshape(self._heads, rows, self._count * length)[..., :n]

    def start(self) -> list[Tensor]:
        return self._inner.start()

    def add(self, state: list[Tensor], x: Tensor, W: Tensor) -> None:
        self._inner.add(state, self._lay(x), self._lay(W))

    def finish(self, state: list[Tensor]) -> Tensor:
        parts = self._inner.finish(state)
        return parts.reshape(self._heads, self._count, *parts.shape[1:]).sum(1)

    def prepare(self, M: Tensor) -> list[Tensor]:
        return self._inner.prepare(M.repeat_interleave(self._count, 0))

    def sums(self, x: Tensor, M: list[Tensor]) -> Tensor:
        return self._join(self._inner.sums(self._lay(x), M), x.shape[2])

    def gradient(self, x: Tensor, M: list[Tensor], W: Tensor, state: list[Tensor] | None) -> tuple[Tensor, Tensor]:
        grad_x, grad_W = self._inner.gradient(self._lay(x), M, self._lay(W), state)
        return self._join(grad_x, x.shape[2]), self._join(grad_W, x.shape[2])
