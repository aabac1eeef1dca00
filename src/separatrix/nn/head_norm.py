"""RMS normalisation of the vectors of heads, with a gain for each coordinate of each head.

It is the norm of the arguments qk_norm and head_norm of `nn.TensorAttention`. The gains are one vector
(heads * head_dim,), so that tensor parallelism divides them between ranks as it divides the heads.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import rms_norm

EPSILON = 1e-16
"""Added to the mean square. Initially the outputs of heads of order k over n tokens have a mean square of about n^(1 -
k): the epsilon of `nn.RMSNorm`, 1.2e-7 in float32, would leave those of order 4 over 1,000 tokens small."""


def normalise_heads(x: Tensor, gain: Tensor) -> Tensor:
    """Each vector of x (..., heads, length, head_dim) divided by its root mean square and multiplied by the gain of its
    head.

    A vector of zeros stays zero.

    Args:
        x: The vectors.
        gain: (heads * head_dim,), the gains of all heads in x.

    Returns:
        The normalised vectors, in the dtype of x.

    Example:
        >>> x = torch.tensor([[[3.0, -3.0], [0.0, 0.0]]])
        >>> normalise_heads(x, torch.tensor([1.0, 2.0])).tolist()
        [[[1.0, -2.0], [0.0, 0.0]]]
    """
    width = x.shape[-1]
    wide = torch.promote_types(x.dtype, torch.float32)
    unit = rms_norm(x.to(wide), (width,), eps=EPSILON)
    return (unit * gain.reshape(-1, 1, width)).to(x.dtype)
