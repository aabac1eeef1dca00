"""The one-layer transformer of Definition 2.4, and its stochastic form of Definition 2.5.

    f(X, y) = V Z softmax(Z^T W z_query),    Z = [X; E],    z_query = [x_query; e_y]

from Wang, Wei, Hsu and Lee. W is (d + width) square and V is d by (d + width), as in the paper; the tokens and
encodings are rows here, so the code says Z W z and S Z V^T. W holds the merged K^T Q; there is no 1/sqrt(d).

x_query is any token (Lemma E.7), or zero if none is given (Section 3.1). With x_query = 0 the first d columns of W are
multiplied by zeros: they do not affect the output, and their gradient is zero. With one fixed token their gradient is a
multiple of this token, so that they change in its direction only.

This file follows the definition, and autograd differentiates it. Training uses `separatrix.selection.gradient`; a test
compares it with this file.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.selection.arguments import seeded
from separatrix.selection.encodings import near_orthogonal_stack, subset_code


class SelectionTransformer(nn.Module):
    """The transformer of Definition 2.4 with trainable W and V; the encoding is given with each input.

    The parameters start at zero, as in the theorems; `randomise` draws them as in Appendix F.

    Args:
        d: the dimension of a token.
        width: the dimension of an encoding (the paper's d_e; T for one-hot).
        dtype: the type of the parameters.

    Example:
        >>> model = SelectionTransformer(d=2, width=3, dtype=torch.float64)
        >>> X, y = torch.ones(1, 3, 2, dtype=torch.float64), torch.tensor([[0, 2]])
        >>> model.set_ground_truth(scale=50.0)
        >>> model(X, y, torch.eye(3, dtype=torch.float64)).tolist()
        [[1.0, 1.0]]
    """

    def __init__(self, d: int, width: int, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.d = whole("d", d, low=1)
        self.width = whole("width", width, low=1)
        size = self.d + self.width
        self.W = nn.Parameter(torch.zeros(size, size, dtype=dtype))
        self.V = nn.Parameter(torch.zeros(self.d, size, dtype=dtype))

    def forward(self, X: Tensor, y: Tensor, E: Tensor, x_query: Tensor | None = None) -> Tensor:
        """The outputs of the transformer, of shape (..., d).

        Args:
            X: the tokens, of shape (..., T, d).
            y: the positions to average, of shape (..., q).
            E: the encoding, of shape (T, width).
            x_query: the token of the query, of shape (d,) or (..., d); None for zero.
        """
        return self.attention(X, y, E, x_query).unsqueeze(-2).matmul(_tokens(X, E)).squeeze(-2) @ self.V.mT

    def attention(self, X: Tensor, y: Tensor, E: Tensor, x_query: Tensor | None = None) -> Tensor:
        """The attention S_y over the T positions, of shape (..., T), for the arguments of `forward`."""
        if E.shape != (X.shape[-2], self.width) or X.shape[-1] != self.d:
            expected = f"X (..., T, {self.d}) and E (T, {self.width})"
            raise ArgumentError("E", expected=expected, got=f"{tuple(X.shape)} and {tuple(E.shape)}")
        e_y = subset_code(E, y)
        token = e_y.new_zeros(self.d) if x_query is None else x_query
        if token.shape[-1] != self.d or token.shape not in ((self.d,), (*e_y.shape[:-1], self.d)):
            raise ArgumentError("x_query", expected=f"shape ({self.d},) or (..., {self.d})", got=tuple(token.shape))
        z_query = torch.cat([token.expand(*e_y.shape[:-1], self.d), e_y], -1)
        logits = _tokens(X, E) @ (z_query @ self.W.mT).unsqueeze(-1)
        return torch.softmax(logits.squeeze(-1), -1)

    @torch.no_grad()
    def randomise(self, std: float, generator: torch.Generator | int) -> None:
        """Draw W and V with independent N(0, std^2) entries; Appendix F has std^2 = 1/(d + width)."""
        source = seeded(generator)
        self.W.normal_(0.0, std, generator=source)
        self.V.normal_(0.0, std, generator=source)

    @torch.no_grad()
    def set_ground_truth(self, scale: float, *, value: float = 1.0) -> None:
        """Set W = scale W* and V = value V*, the directions that training finds, with C = scale and alpha = value."""
        W, V = ground_truth(self.d, self.width)
        self.W.copy_(scale * W)
        self.V.copy_(value * V)


class StochasticSelectionTransformer(nn.Module):
    """The transformer of Definition 2.5: the mean of a transformer's output over random valid encodings, estimated.

    The estimate is unbiased, and its standard error falls as 1/sqrt(draws).

    Args:
        transformer: the transformer.
        threshold: the largest |<e_i, e_j>| of an encoding.
        draws: how many encodings are drawn for each call.
    """

    def __init__(self, transformer: SelectionTransformer, *, threshold: float, draws: int) -> None:
        super().__init__()
        self.transformer = transformer
        self.threshold = threshold
        self.draws = whole("draws", draws, low=1)

    def forward(self, X: Tensor, y: Tensor, *, generator: torch.Generator | int) -> Tensor:
        """The estimated outputs, of shape (..., d).

        Args:
            X: the tokens, of shape (..., T, d).
            y: the positions to average, of shape (..., q).
            generator: the source of randomness, or a seed.
        """
        width, T = self.transformer.width, X.shape[-2]
        stack = near_orthogonal_stack(
            self.draws, T, width, threshold=self.threshold, generator=generator, dtype=X.dtype
        )
        total = torch.zeros_like(X[..., 0, :])
        for E in stack.E:
            total = total + self.transformer(X, y, E)
        return total / self.draws


def selection_loss(output: Tensor, target: Tensor) -> Tensor:
    """The loss of equation (3): half the mean over the batch of the squared error, summed over the d coordinates.

    **Half**: the bounds for fully-connected nets (Theorem 3.5) are on the squared error itself, twice this.

    >>> selection_loss(torch.tensor([[2.0, 0.0]]), torch.zeros(1, 2)).item()
    2.0
    """
    return 0.5 * (output - target).square().sum(-1).mean()


def ground_truth(d: int, width: int, *, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """The matrices W* = [[0, 0], [0, I]] and V* = [I, 0].

    >>> [x.tolist() for x in ground_truth(1, 1)]
    [[[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]]
    """
    on = torch.cat([torch.zeros(d, dtype=dtype), torch.ones(width, dtype=dtype)])
    return torch.diag(on), torch.eye(d, d + width, dtype=dtype)


def cosine(A: Tensor, B: Tensor) -> float:
    """The cosine <A, B> / (|A| |B|) of two matrices; nan if either is zero, as at the zero initialisation.

    >>> cosine(torch.eye(2), torch.ones(2, 2)) - 2**-0.5 < 1e-7
    True
    """
    return float((A * B).sum() / (torch.linalg.vector_norm(A) * torch.linalg.vector_norm(B)))


def _tokens(X: Tensor, E: Tensor) -> Tensor:
    """The matrix Z with a row for each position, of shape (..., T, d + width)."""
    return torch.cat([X, E.to(X.dtype).expand(*X.shape[:-1], -1)], -1)
