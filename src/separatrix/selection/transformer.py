"""The one-layer transformer of Definition 2.4, and its stochastic form of Definition 2.5.

    f(X, y) = V Z softmax(Z^T W z_query),    Z = [X; E],    z_query = [x_query; e_y],    x_query = 0

from Wang, Wei, Hsu and Lee. W is (d + width) square and V is d by (d + width), as in the paper; the tokens and
encodings are rows here, so the code says Z W z and S Z V^T. W holds the merged K^T Q; there is no 1/sqrt(d).

With x_query = 0 the first d columns of W meet only zeros: they neither change the output nor receive a gradient.

This file is the definition, written to be read and differentiated by autograd. Training uses
`separatrix.selection.gradient`, which a test holds to this.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.selection.arguments import seeded
from separatrix.selection.encodings import near_orthogonal_stack, subset_code

__all__ = [
    "SelectionTransformer",
    "StochasticSelectionTransformer",
    "cosine",
    "ground_truth",
    "selection_loss",
]


class SelectionTransformer(nn.Module):
    """Definition 2.4 with trainable W and V, and the encoding given with each input.

    d: the token's dimension. width: the encoding's (the paper's d_e; T for one-hot). The parameters start at zero, as
    in the theorems; `randomise` draws them as in Appendix F.

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

    def forward(self, X: Tensor, y: Tensor, E: Tensor) -> Tensor:
        """X: (..., T, d). y: (..., q). E: (T, width). Returns (..., d)."""
        return self.attention(X, y, E).unsqueeze(-2).matmul(_tokens(X, E)).squeeze(-2) @ self.V.mT

    def attention(self, X: Tensor, y: Tensor, E: Tensor) -> Tensor:
        """S_y, the softmax weights over the T positions: (..., T)."""
        if E.shape != (X.shape[-2], self.width) or X.shape[-1] != self.d:
            expected = f"X (..., T, {self.d}) and E (T, {self.width})"
            raise ArgumentError("E", expected=expected, got=f"{tuple(X.shape)} and {tuple(E.shape)}")
        e_y = subset_code(E, y)
        z_query = torch.cat([e_y.new_zeros(*e_y.shape[:-1], self.d), e_y], -1)
        logits = _tokens(X, E) @ (z_query @ self.W.mT).unsqueeze(-1)
        return torch.softmax(logits.squeeze(-1), -1)

    @torch.no_grad()
    def randomise(self, std: float, generator: torch.Generator | int) -> None:
        """Independent N(0, std^2) entries; Appendix F has std^2 = 1/(d + width)."""
        source = seeded(generator)
        self.W.normal_(0.0, std, generator=source)
        self.V.normal_(0.0, std, generator=source)

    @torch.no_grad()
    def set_ground_truth(self, scale: float, *, value: float = 1.0) -> None:
        """W = scale W*, V = value V*: the directions training finds, with C = scale and alpha = value."""
        W, V = ground_truth(self.d, self.width)
        self.W.copy_(scale * W)
        self.V.copy_(value * V)


class StochasticSelectionTransformer(nn.Module):
    """Definition 2.5: the mean of the transformer's output over valid encodings, estimated by `draws` fresh ones.

    The mean over the same T, width and threshold; the estimate is unbiased, and its error falls as 1/sqrt(draws).
    """

    def __init__(self, transformer: SelectionTransformer, *, threshold: float, draws: int) -> None:
        super().__init__()
        self.transformer = transformer
        self.threshold = threshold
        self.draws = whole("draws", draws, low=1)

    def forward(self, X: Tensor, y: Tensor, *, generator: torch.Generator | int) -> Tensor:
        """X: (..., T, d). y: (..., q). Returns (..., d)."""
        width, T = self.transformer.width, X.shape[-2]
        stack = near_orthogonal_stack(
            self.draws, T, width, threshold=self.threshold, generator=generator, dtype=X.dtype
        )
        total = torch.zeros_like(X[..., 0, :])
        for E in stack.E:
            total = total + self.transformer(X, y, E)
        return total / self.draws


def selection_loss(output: Tensor, target: Tensor) -> Tensor:
    """Equation (3): half the mean over the batch of the squared error, summed over the d coordinates.

    **Half**: the bounds for fully-connected nets (Theorem 3.5) are on the squared error itself, twice this.

    >>> selection_loss(torch.tensor([[2.0, 0.0]]), torch.zeros(1, 2)).item()
    2.0
    """
    return 0.5 * (output - target).square().sum(-1).mean()


def ground_truth(d: int, width: int, *, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """W* = [[0, 0], [0, I]] and V* = [I, 0].

    >>> [x.tolist() for x in ground_truth(1, 1)]
    [[[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]]
    """
    on = torch.cat([torch.zeros(d, dtype=dtype), torch.ones(width, dtype=dtype)])
    return torch.diag(on), torch.eye(d, d + width, dtype=dtype)


def cosine(A: Tensor, B: Tensor) -> float:
    """<A, B> / (|A| |B|) for matrices; nan when either is zero, as at the zero initialisation.

    >>> cosine(torch.eye(2), torch.ones(2, 2)) - 2**-0.5 < 1e-7
    True
    """
    return float((A * B).sum() / (torch.linalg.vector_norm(A) * torch.linalg.vector_norm(B)))


def _tokens(X: Tensor, E: Tensor) -> Tensor:
    """Z, a row for each position: (..., T, d + width)."""
    return torch.cat([X, E.to(X.dtype).expand(*X.shape[:-1], -1)], -1)
