r"""Score forms: maps of queries and keys to factors, so that every score form is one operator.

    out = sx.tensor_attention(*sx.forms.determinant(query, keys), values, scale=1 / d)

- `maps`: the forms (`product`, `pairwise`, `determinant`), biases (`with_bias`, `key_bias`, `alibi`) and positions
  (`rotary`).
- `rotary_positions`: rotary positions of one tensor, for each form.
- `factorised`: `pairwise_attention`, a fast exact algorithm for the pairwise form at order 3.
"""

from separatrix.attention.forms.factorised import pairwise_attention
from separatrix.attention.forms.maps import (
    alibi,
    alibi_slopes,
    determinant,
    key_bias,
    pairwise,
    product,
    rotary,
    with_bias,
)

__all__ = [
    "alibi",
    "alibi_slopes",
    "determinant",
    "key_bias",
    "pairwise",
    "pairwise_attention",
    "product",
    "rotary",
    "with_bias",
]
