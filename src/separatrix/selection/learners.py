r"""A layer for the task with one of many attentions: by softmax, by the kernels of linear attention, or over pairs.

The layer of Definition 2.4 of Wang, Wei, Hsu and Lee has Z = [X; E], z = [0; e_y] and f = V Z S with S = softmax(Z^T W
z). Here S varies, with the query Q z and the keys K Z of width d + d_e each, without scale or bias:

    softmax W           exp(Z^T W z), normalised              W merges K^T Q: the paper's layer
    softmax QK          exp(s), normalised                    s_i = <K z_i, Q z>
    identity            s, normalised                         a sum that vanishes is an error
    elu, relu, taylor2  phi(Q z) . phi(K z_i), normalised     the maps of `separatrix.attention.features`
    random_positive     the same with 64 random features of exp(s), drawn once
    unnormalised        s itself                              no denominator at all
    order 3             exp(<Q z, K_1 z_i, K_2 z_j>) over pairs, whose value is V_1 z_i * V_2 z_j entrywise
    order 3 biased      the same with biases: a coordinate 1 is added to Z and z

An example of the task has only one query, so its T weights are computed and no features are summed over tokens. A test
compares the weights with `separatrix.linear_attention` and `separatrix.tensor_attention`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from separatrix.attention.features import FEATURE_MAPS, RandomPositive, random_positive
from separatrix.checks import one_of, whole
from separatrix.errors import SeparatrixError
from separatrix.selection.arguments import seeded

AttentionKind = Literal[
    "softmax W",
    "softmax QK",
    "identity",
    "elu",
    "relu",
    "taylor2",
    "random_positive",
    "unnormalised",
    "order 3",
    "order 3 biased",
]
ATTENTIONS: tuple[AttentionKind, ...] = get_args(AttentionKind)

RANDOM_FEATURES = 64


class SelectionLearner(nn.Module):
    """The layer with one of `ATTENTIONS`.

    Args:
        attention: the attention.
        d: the dimension of a token.
        width: the dimension of an encoding.
        generator: the source of randomness, or a seed.
        zero: whether the matrices start at zero; else with entries of the law N(0, 1/(d + width)).
        dtype: the type of the matrices.

    Example:
        >>> learner = SelectionLearner("relu", d=2, width=3, generator=0)
        >>> sorted(name for name, _ in learner.named_parameters())
        ['K', 'Q', 'V']
        >>> learner(torch.ones(4, 3, 2), torch.eye(3), torch.ones(4, 3)).shape
        torch.Size([4, 2])
    """

    W: Tensor
    Q: Tensor
    K: Tensor
    V: Tensor
    K1: Tensor
    K2: Tensor
    V1: Tensor
    V2: Tensor
    features: RandomPositive | None

    def __init__(
        self,
        attention: AttentionKind,
        d: int,
        width: int,
        *,
        generator: torch.Generator | int,
        zero: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.attention = one_of("attention", attention, ATTENTIONS)
        self.d, self.width = whole("d", d, low=1), whole("width", width, low=1)
        source = seeded(generator)
        size = self.d + self.width
        seen = size + self._biased
        std = 0.0 if zero else 1 / math.sqrt(size)
        for name in _MATRICES.get(attention, ("Q", "K", "V")):
            rows = self.d if name.startswith("V") else size
            drawn = torch.randn(rows, seen, generator=source, dtype=dtype)
            self.register_parameter(name, nn.Parameter(std * drawn))
        self.features = random_positive(size, RANDOM_FEATURES, source) if attention == "random_positive" else None

    @property
    def _biased(self) -> bool:
        return self.attention == "order 3 biased"

    def forward(self, X: Tensor, E: Tensor, code: Tensor) -> Tensor:
        """The outputs of the layer, (n, d).

        Args:
            X: the tokens, of shape (n, T, d).
            E: the encoding, of shape (T, width).
            code: the codes e_y of the subsets, of shape (n, width).
        """
        Z = torch.cat([X, E.expand(len(X), -1, -1)], -1)
        z = torch.cat([X.new_zeros(len(X), self.d), code], -1)
        if self._biased:
            Z, z = (torch.cat([x, torch.ones_like(x[..., :1])], -1) for x in (Z, z))
        if self.attention.startswith("order 3"):
            return self._by_pairs(Z, z)
        return torch.bmm(self.weights(Z, z).unsqueeze(1), Z).squeeze(1) @ self.V.mT

    def weights(self, Z: Tensor, z: Tensor) -> Tensor:
        """The attention weights S, (n, T), for Z (n, T, d + width) and z (n, d + width)."""
        if self.attention == "softmax W":
            return torch.softmax(_dots(z @ self.W.mT, Z), -1)
        query, keys = z @ self.Q.mT, Z @ self.K.mT
        if self.attention == "softmax QK":
            return torch.softmax(_dots(query, keys), -1)
        if self.attention == "unnormalised":
            return _dots(query, keys)
        return _normalised(self._kernel(query, keys))

    def _kernel(self, query: Tensor, keys: Tensor) -> Tensor:
        """The kernel phi(query) . phi(keys), computed without the features where it has a closed form."""
        if self.features is not None:
            phi_q, phi_k = self.features.shifted(query.unsqueeze(1), keys)
            return _dots(phi_q.squeeze(1), phi_k)
        if self.attention == "taylor2":
            s = _dots(query, keys)
            return 1 + s + s.square() / 2
        phi: Callable[[Tensor], Tensor] = FEATURE_MAPS[self.attention]
        return _dots(phi(query), phi(keys))

    def _by_pairs(self, Z: Tensor, z: Tensor) -> Tensor:
        scores = torch.bmm((z @ self.Q.mT).unsqueeze(1) * (Z @ self.K1.mT), (Z @ self.K2.mT).mT)
        S = torch.softmax(scores.flatten(1), -1).view_as(scores)
        out: Tensor = (torch.bmm(S, Z @ self.V2.mT) * (Z @ self.V1.mT)).sum(1)
        return out


_PAIRS = ("Q", "K1", "K2", "V1", "V2")
_MATRICES: dict[AttentionKind, tuple[str, ...]] = {"softmax W": ("W", "V"), "order 3": _PAIRS, "order 3 biased": _PAIRS}


def _dots(query: Tensor, keys: Tensor) -> Tensor:
    """The inner products <query, key_i>, (n, T), of queries (n, m) and keys (n, T, m)."""
    return torch.bmm(keys, query.unsqueeze(2)).squeeze(2)


def _normalised(weights: Tensor) -> Tensor:
    """The weights divided by their sum; an error if the sum is within its rounding error of zero."""
    total = weights.sum(1, keepdim=True)
    with torch.no_grad():
        sizes = weights.abs().sum(1, keepdim=True)
        vanishing = total.abs() <= weights.shape[1] * torch.finfo(weights.dtype).eps * sizes
        if vanishing.any():
            at = int(vanishing.squeeze(1).nonzero()[0])
            raise SeparatrixError(
                f"SelectionLearner: the normaliser of example {at} vanishes: its terms sum to {float(total[at]):.3g}, "
                f"their magnitudes to {float(sizes[at]):.3g}."
            )
    return weights / total
