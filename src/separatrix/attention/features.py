r"""Feature maps of linear attention: phi with phi(q) . phi(k) instead of exp(q . k).

A feature map takes a (..., L, d) tensor of queries or of keys and returns their (..., L, r) features. **No map scales
anything**: s = q . k below is the plain inner product, with neither the papers' 1/d nor PyTorch's 1/sqrt(d). To
approximate ``softmax(scale * s)`` multiply the query (or the key) by ``scale`` first.

    name             phi(q) . phi(k)                 r                     its sign
    identity         s                               d                     any
    elu              (elu(q) + 1) . (elu(k) + 1)     d                     positive
    relu             relu(q) . relu(k)               d                     never negative, may be 0
    taylor2          1 + s + s^2 / 2                 1 + d + d(d + 1)/2    at least 1/2
    random_positive  exp(s) in expectation           as requested          positive

`identity` is the `lin` of Yichuan Deng, Zhao Song, Kaijun Yuan and Tianyi Zhou, "Why Softmax Attention Outperforms
Linear Attention"; `elu` is from Angelos Katharopoulos, Apoorv Vyas, Nikolaos Pappas and François Fleuret,
"Transformers are RNNs"; `random_positive` from Krzysztof Choromanski et al., "Rethinking Attention with Performers".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError

__all__ = ["FEATURE_MAPS", "FeatureMap", "RandomPositive", "elu", "identity", "random_positive", "relu", "taylor2"]

FeatureMap = Callable[[Tensor], Tensor]


def identity(x: Tensor) -> Tensor:
    """phi(x) = x, so that phi(q) . phi(k) = q . k, of either sign (`lin`, Definition 3.2)."""
    return x


def elu(x: Tensor) -> Tensor:
    """phi(x) = elu(x) + 1 entrywise: x + 1 where x > 0, exp(x) elsewhere.

    >>> print(elu(torch.tensor([-40.0, 0.0, 2.0])))  # elu(-40) + 1 would round to 0
    tensor([4.2484e-18, 1.0000e+00, 3.0000e+00])
    """
    return torch.exp(x.clamp(max=0)) + torch.relu(x)


def relu(x: Tensor) -> Tensor:
    """phi(x) = max(x, 0) entrywise. A query without a positive entry has only zero features."""
    return torch.relu(x)


def taylor2(x: Tensor) -> Tensor:
    """phi(q) . phi(k) = 1 + s + s^2 / 2 with s = q . k: exp(s) to second order, **at scale 1**.

    The features are 1, the x_i, the x_i x_j for i < j, and the x_i^2 / sqrt(2): each product of two coordinates once,
    for 1 + d + d(d + 1)/2 in all. As ((1 + s)^2 + 1) / 2 the kernel is at least 1/2, so in exact arithmetic its
    normaliser never vanishes.

    >>> q, k = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])
    >>> round((taylor2(q) @ taylor2(k).mT).item(), 5)  # s = 1
    2.5
    """
    i, j = torch.triu_indices(x.shape[-1], x.shape[-1], offset=1, device=x.device)
    return torch.cat(
        [x.new_ones(*x.shape[:-1], 1), x, x[..., i] * x[..., j], x.square() * math.sqrt(0.5)],
        dim=-1,
    )


@dataclass(frozen=True, eq=False)
class RandomPositive:
    """phi(x) = exp(W x - |x|^2 / 2) / sqrt(r), with the rows w_1, ..., w_r of `projection` standard normal in R^d.

    Then E[phi(q) . phi(k)] = exp(q . k). Made by `random_positive`.
    """

    projection: Tensor

    def log(self, x: Tensor) -> Tensor:
        """The logarithms of the features, which are finite even if the features overflow or underflow."""
        r, d = self.projection.shape
        if x.shape[-1] != d:
            raise ArgumentError("feature_map", expected=f"a map of head_dim {x.shape[-1]}", got=f"one of {d}")
        W = self.projection.to(dtype=x.dtype, device=x.device)
        return x @ W.mT - (x.square().sum(-1, keepdim=True) + math.log(r)) / 2

    def __call__(self, x: Tensor) -> Tensor:
        return self.log(x).exp()

    def shifted(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised features of query and key: the features of each query, and of each key set, are divided by their
        sum.

        These factors cancel in linear attention, and without them the features of long vectors underflow;
        `separatrix.linear_attention` uses these features.
        """
        whole = self.log(key)
        return self.log(query).softmax(-1), whole.flatten(-2).softmax(-1).reshape(whole.shape)


def random_positive(head_dim: int, num_features: int, generator: torch.Generator) -> RandomPositive:
    r"""Positive random features of exp(q . k), **at scale 1**, drawn from `generator`.

    The rows of W are orthogonal within blocks of `head_dim` (a uniformly random rotation, its rows given independent
    lengths of Gaussian vectors): each row is still standard normal, so the mean is exact, and the variance is smaller.
    The relative variance grows like exp(|q + k|^2): keep the vectors short.

    >>> phi = random_positive(4, 256, torch.Generator().manual_seed(0))
    >>> q, k = torch.tensor([[0.5, 0.0, 0.0, 0.0]]), torch.tensor([[0.4, 0.2, 0.0, 0.0]])
    >>> round((phi(q) @ phi(k).mT).item(), 1), round(math.exp(0.2), 1)
    (1.2, 1.2)
    """
    for name, number in (("head_dim", head_dim), ("num_features", num_features)):
        if not is_whole(number, low=1):
            raise ArgumentError(name, expected="an integer >= 1", got=repr(number))
    if not isinstance(generator, torch.Generator):
        raise ArgumentError("generator", expected="a torch.Generator", got=repr(generator))

    def gaussian(rows: int) -> Tensor:
        return torch.randn(rows, head_dim, generator=generator, device=generator.device, dtype=torch.float64)

    blocks = []
    for _ in range(-(-num_features // head_dim)):
        rotation, R = torch.linalg.qr(gaussian(head_dim))
        # Fixing the signs of R's diagonal makes the QR factorisation unique, and so the rotation uniform.
        blocks.append(rotation * R.diagonal().sign())
    lengths = gaussian(num_features).norm(dim=-1, keepdim=True)
    return RandomPositive(torch.cat(blocks)[:num_features] * lengths)


FEATURE_MAPS: dict[str, FeatureMap] = {"identity": identity, "elu": elu, "relu": relu, "taylor2": taylor2}
"""The feature maps of `linear_attention` by name, without `random_positive`, which needs a generator."""


def mapped(feature_map: str | FeatureMap, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """The features of query and key under a map given by name or as a callable, checked."""
    if isinstance(feature_map, RandomPositive):
        return feature_map.shifted(query, key)
    if feature_map == "random_positive":
        raise ArgumentError(
            "feature_map",
            expected="a map made by separatrix.attention.features.random_positive(head_dim, num_features, generator)",
            got=repr(feature_map),
        )
    phi = FEATURE_MAPS.get(feature_map) if isinstance(feature_map, str) else feature_map
    if not callable(phi):
        names = ", ".join(map(repr, FEATURE_MAPS))
        raise ArgumentError("feature_map", expected=f"one of {names} or a callable", got=repr(feature_map))
    phi_q, phi_k = _checked(phi, query, "query"), _checked(phi, key, "key")
    if phi_q.shape[-1] != phi_k.shape[-1]:
        raise ArgumentError(
            "feature_map",
            expected="the same number of features for query and key",
            got=f"{phi_q.shape[-1]} and {phi_k.shape[-1]}",
        )
    return phi_q, phi_k


def _checked(phi: FeatureMap, x: Tensor, name: str) -> Tensor:
    features = phi(x)
    if not isinstance(features, Tensor):
        raise ArgumentError("feature_map", expected="a map from tensors to tensors", got=type(features).__name__)
    if features.shape[:-1] != x.shape[:-1] or features.dtype != x.dtype or features.device != x.device:
        lead = ", ".join(map(str, x.shape[:-1]))
        raise ArgumentError(
            "feature_map",
            expected=f"features of {name} of shape ({lead}, r), {x.dtype}, on {x.device}",
            got=f"{tuple(features.shape)}, {features.dtype}, on {features.device}",
        )
    return features
