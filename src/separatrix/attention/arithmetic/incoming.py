"""Scales incoming gradients to about 1 by a power of two, so that no significant number underflows in a backward pass.

A backward pass multiplies incoming gradients by weights and features of all sizes. Gradients are linear in the incoming
gradient, and powers of two are exact: a head's incoming gradient is divided by the power of two next to its largest
entry, and the computed gradients are multiplied by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_MOST = 1100
"""The largest exponent of a power of two, large enough to scale every float64 number to about 1."""


@dataclass(frozen=True)
class Power:
    """A power of two for each head or row, stored as two factors, because the power itself may overflow or underflow.

    Example:
        >>> power = Power.next_to(torch.tensor([[3e-42, -1e-44]]))
        >>> power.divide(torch.tensor([[3e-42, -1e-44]]))
        tensor([[ 0.5227, -0.0017]])
    """

    exponents: Tensor

    @staticmethod
    def next_to(largest: Tensor) -> Power:
        """For each row of (H, n) the power of two next to its largest magnitude; 1 for a row of zeros."""
        flat = largest.abs().amax(1) if largest.shape[1] else largest.new_zeros(largest.shape[0])
        return Power(torch.frexp(flat).exponent.clamp(-_MOST, _MOST))

    def times(self, other: Power) -> Power:
        """The product of two powers for each head, both within 2^-1023 and 2^1023."""
        return Power(self.exponents + other.exponents)

    def of_heads(self, rows: Tensor) -> tuple[Power, Power]:
        """The largest power among the rows of each head, and each row's power divided by it.

        The powers belong to rows (H, L, n); rows of zeros are ignored.
        """
        exponents = self.exponents.reshape(rows.shape[:2]).masked_fill((rows == 0).all(-1), -_MOST)
        largest = exponents.amax(1, keepdim=True) if rows.shape[1] else exponents.new_zeros(rows.shape[0], 1)
        return Power(largest.squeeze(1)), Power((exponents - largest).clamp(min=-_MOST).flatten())

    def _factors(self, x: Tensor, sign: int) -> tuple[Tensor, Tensor]:
        half = torch.div(self.exponents, 2, rounding_mode="floor")
        shape = (-1, *[1] * (x.dim() - 1))
        return tuple(torch.exp2((sign * part).to(x.dtype)).reshape(shape) for part in (half, self.exponents - half))  # type: ignore[return-value]

    def divide(self, x: Tensor) -> Tensor:
        """Divide x (H, ...) by the power of its head."""
        first, second = self._factors(x, -1)
        return x * first * second

    def multiply(self, x: Tensor) -> Tensor:
        """Multiply x (H, ...) by the power of its head."""
        first, second = self._factors(x, 1)
        return x * first * second
