"""The plan of a call: the chosen algorithm, its rank, and the expected error and cost.

A plan is a forecast; only the certificate of the result is a guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from separatrix.attention.near_linear.approximation.monomials import IndexSet
    from separatrix.attention.near_linear.approximation.remainder import Polynomial


@dataclass(frozen=True)
class Recipe:
    """The polynomial that near-linear attention expands.

    Attributes:
        index_set: The multi-indices of the polynomial's monomials.
        polynomial: The polynomial of the scores; None if the index set is not of total degree.
        dtype: The dtype in which monomials are computed.
        key_powers: Sums of powers of the keys, for the error of an index set that is not of total degree.
        squares: The number of columns of squared deviations of the values, whose sums lower the certificate (see
            `analysis`): 0, 1, or as many as the values have.
    """

    index_set: IndexSet = field(repr=False)
    polynomial: Polynomial | None
    dtype: torch.dtype
    key_powers: dict[int, Tensor] | None = field(default=None, repr=False, compare=False)
    squares: int = 0


@dataclass(frozen=True)
class Plan:
    """The chosen algorithm, and its expected error and cost.

    Attributes:
        method: "exact" or "polynomial", or "none" from `plan_shapes` if neither is possible.
        degree: The degree of the polynomial; None for the other methods.
        rank: The number of its monomials, the size of the index set; None for the other methods.
        index_set: The shape of the index set, in words; None for the other methods.
        predicted_error: A forecast of the certified error, without a guarantee.
        flops: The flops of the products with the monomials, or with all keys and values.
        bytes: The memory in addition to inputs and outputs.
        why: One sentence that says why this algorithm was chosen.
    """

    method: str
    degree: int | None
    rank: int | None
    index_set: str | None
    predicted_error: float
    flops: float
    bytes: float
    why: str
    recipe: Recipe | None = field(repr=False, default=None, compare=False)
