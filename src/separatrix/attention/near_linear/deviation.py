r"""How far values are from a centre: what a certificate weighs by powers of the scores in place of the values' range.

For any centre c and u_t >= (v_t - c)^2, Cauchy's inequality bounds what a polynomial's error does to an output,

    sum_t |s_t|^((a + b) / 2) |v_t - c| <= sqrt(sum_t s_t^a) sqrt(sum_t s_t^b u_t),

and the last sum is the numerator of near-linear attention by the polynomial s^b with values u. The squares are divided
by those of `scales`, so that they are at most `LARGEST_SQUARE`, and rounded up, so that they are never too small. At
order 2 the centre is the mean of the values; beyond it is 0, because squares have to be products over the sets. See
docs/derivations/near-linear-attention.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from separatrix.attention.bounds import SLACK, ValueRange, product_of
from separatrix.attention.call import Call
from separatrix.attention.near_linear.analysis import pieces_in_memory
from separatrix.attention.near_linear.approximation.coordinates import token_mean

LARGEST_SQUARE = 1.01
"""A bound on every product over the value sets of squares: at most 63 factors of at most 1 + 2^-19."""


@dataclass(frozen=True)
class Deviation:
    """|v_t - centre| <= prod_m scales[m] * sqrt(prod_m squares[m]) in every column.

    Attributes:
        centre: What the values are compared with, (H, d_v).
        scales: The largest deviation of each value set, (H,) each.
    """

    centre: Tensor
    scales: tuple[Tensor, ...]

    @property
    def scale(self) -> Tensor:
        """The product of the scales, from above, (H, 1)."""
        return product_of(self.scales).unsqueeze(1) * SLACK

    def squares(self, value: Tensor, m: int, columns: int) -> Tensor:
        """The squared deviations (H, n, columns) of values (H, n, d_v) of set m, over those of its scale, from above.

        With one column it is the largest of the values' columns.
        """
        scale = self.scales[m].masked_fill(self.scales[m] == 0, 1.0).reshape(-1, 1, 1)
        away = (value - self.centre.unsqueeze(1)).abs_()  # in float64, as the centre is
        if columns == 1:
            away = away.amax(-1, keepdim=True)
        away = away / scale
        return away * away * (1 + 2.0**-20) + 2.0**-60


def deviation(call: Call, values: ValueRange) -> Deviation:
    """The centre and the scales of the values of a call."""
    if call.order > 2:
        magnitudes = (torch.maximum(least.abs(), most.abs()) for least, most in values.ends)
        return Deviation(torch.zeros_like(values.magnitude), tuple(x.amax(1) for x in magnitudes))
    centre = token_mean(call.values[0], call.mask_of_each[0])
    least, most = values.ends[0]
    return Deviation(centre, (torch.maximum(most - centre, centre - least).amax(1) * SLACK,))


def deviation_call(call: Call, away: Deviation, columns: int) -> Call:
    """The call with squared deviations in place of its values, in float32 or float64, as the values were."""
    squares = []
    for m, value in enumerate(call.values):
        heads, length, d_v = value.shape
        into = value.new_empty(heads, length, columns, dtype=call.computed_in)
        for start, stop in pieces_in_memory(4 * heads * d_v, length):
            into[:, start:stop] = away.squares(value[:, start:stop], m, columns)
        squares.append(into)
    return replace(call, values=tuple(squares))
