r"""Encodings of position that the paper does not consider: sinusoidal and rotary.

Sinusoidal encodings (Vaswani et al., "Attention Is All You Need") are scaled to unit length here, with width/2
frequencies theta_k = 10000^{-2k/width}:

    e_i = sqrt(2/width) (cos theta_0 i, sin theta_0 i, cos theta_1 i, ...)

Rotary encodings (Su et al., "RoFormer") rotate the key of position i and the queries of the positions of y by angles
that are proportional to the position, R_i = diag of the rotations by theta_k i, so that only differences of positions
matter. A query here has q positions, so it is the sum of the queries at these positions with the weights of the subset
code. With the content vector a of the query and b + K x_i of the keys,

    score_i = < R_i (b + K x_i), sum_{j in y} g_j R_j a >.

With K = 0 this is <e_i, W e_y> on the sinusoidal encodings, for the matrices W that commute with the rotations: one
amplitude and one phase per frequency.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.selection.arguments import seeded

BASE = 10_000.0


def sinusoidal_encoding(T: int, width: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """The sinusoidal encoding, of shape (T, width), with rows of length 1; the width must be even.

    >>> E = sinusoidal_encoding(3, 2)
    >>> round(float(E[1, 0]), 6), round(float(E[2] @ E[1]), 6)  # cos 1, twice
    (0.540302, 0.540302)
    """
    cos, sin = _angles(whole("T", T, low=1), width, dtype)
    return torch.stack([cos, sin], -1).flatten(1) * math.sqrt(2 / width)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The rotated vectors R_i x_i: the coordinates 2k and 2k + 1 of each vector are rotated by one angle.

    Args:
        x: the vectors, of shape (..., T, width).
        cos: the cosines of the angles, of shape (T, width/2).
        sin: the sines of the angles.

    Example:
        >>> cos, sin = torch.tensor([[0.0]]), torch.tensor([[1.0]])
        >>> turned(torch.tensor([[2.0, 3.0]]), cos, sin).tolist()  # a quarter
        [[-3.0, 2.0]]
    """
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([cos * even - sin * odd, sin * even + cos * odd], -1).flatten(-2)


class RotaryLearner(nn.Module):
    """A layer f = V X softmax(score) with rotary encodings: the values do not depend on positions.

    Args:
        d: the dimension of a token.
        width: the dimension of keys and queries, which must be even.
        generator: the source of randomness, or a seed.
        dtype: the type of the parameters.

    Example:
        >>> learner = RotaryLearner(d=2, width=4, generator=0)
        >>> learner(torch.ones(1, 5, 2), torch.tensor([[0, 3]]), torch.ones(1, 2)).shape
        torch.Size([1, 2])
    """

    a: Tensor
    b: Tensor
    K: Tensor
    V: Tensor

    def __init__(
        self, d: int, width: int, *, generator: torch.Generator | int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        d, width, source = whole("d", d, low=1), whole("width", width, low=2), seeded(generator)
        std = 1 / math.sqrt(d + width)
        for name, shape in (("a", (width,)), ("b", (width,)), ("K", (width, d)), ("V", (d, d))):
            self.register_parameter(name, nn.Parameter(std * torch.randn(shape, generator=source, dtype=dtype)))
        self.width = width

    def forward(self, X: Tensor, y: Tensor, g: Tensor) -> Tensor:
        """The outputs of the layer, (n, d).

        Args:
            X: the tokens, of shape (n, T, d).
            y: the positions, of shape (n, q).
            g: the weights of the positions, of shape (n, q).
        """
        S = torch.softmax(self.scores(X, y, g), -1)
        return torch.bmm(S.unsqueeze(1), X).squeeze(1) @ self.V.mT

    def scores(self, X: Tensor, y: Tensor, g: Tensor) -> Tensor:
        """The scores, (n, T), for the arguments of `forward`."""
        cos, sin = _angles(X.shape[1], self.width, X.dtype)
        queries = embedding_bag(y, turned(self.a.expand(X.shape[1], -1), cos, sin), per_sample_weights=g, mode="sum")
        keys = turned(self.b + X @ self.K.mT, cos, sin)
        return torch.bmm(keys, queries.unsqueeze(2)).squeeze(2)


@functools.lru_cache(maxsize=64)
def _angles(T: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    if whole("width", width, low=2) % 2:
        raise ArgumentError("width", expected="an even number: a frequency has a cosine and a sine", got=width)
    theta = BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(T, dtype=torch.float64).unsqueeze(1) * theta
    return angle.cos().to(dtype), angle.sin().to(dtype)
