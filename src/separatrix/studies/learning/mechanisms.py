"""The attentions that are compared, by name, and their layers, which have the interface of `TensorAttention`.

`ProductAttention`, the product of two order-2 attentions, is the baseline of order 3: it has the same projections and
multiplies the same values, but its scores do not depend on two keys jointly. `MixedAttention` has heads of orders 2
and 3 in one layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from separatrix.attention.linear import linear_attention
from separatrix.attention.operator import tensor_attention
from separatrix.errors import ArgumentError
from separatrix.nn import TensorAttention, rotary
from separatrix.nn.projections import normalise_heads

__all__ = [
    "FURTHER_LAYERS",
    "JOINING",
    "JOINING_ALIKE",
    "LAYERED",
    "LAYERED_PRODUCT",
    "LAYERS",
    "MECHANISMS",
    "SEPARATE",
    "AttentionKind",
    "LinearAttention",
    "MixedAttention",
    "ProductAttention",
    "ValueNormAttention",
    "layer_of",
    "mechanism",
]


@dataclass(frozen=True)
class AttentionKind:
    """The attention of a model, independent of the model's sizes.

    Attributes:
        order: The order of softmax attention.
        bound: The bound R on the scores; None for unbounded scores.
        features: The feature map of linear attention; None for softmax.
        layers: The number of layers that attend one after the other.
        windows: The windows of the key sets in softmax attention; None for no windows.
        every: Every `every`-th layer has this attention; the others have order 2.
        rotary: The base of rotary positions in every layer; None for no rotary positions.
        form: The score form of softmax attention; "separate" stands for `ProductAttention`, "mixed" for
            `MixedAttention`.
        norms: The arguments among `qk_norm`, `head_norm` and `learned_scale` of `TensorAttention` that are True,
            "value_norm" for `ValueNormAttention`, and "layer_norm" for an `nn.LayerNorm` of the attention's output.
        power: The scores of unbounded softmax attention are divided by this power of the head dimension.
    """

    order: int = 2
    bound: float | None = None
    features: str | None = None
    layers: int = 1
    windows: tuple[int, ...] | None = None
    every: int = 1
    rotary: float | None = None
    form: str = "product"
    norms: tuple[str, ...] = ()
    power: float = 0.5

    @property
    def mean_order(self) -> float:
        """The mean order of the heads."""
        return (self.order + 2) / 2 if self.form == "mixed" else self.order

    @property
    def stack(self) -> tuple[AttentionKind, ...]:
        """The attention of each layer, from the first on.

        Example:
            >>> [layer.order for layer in AttentionKind(3, layers=4, every=2).stack]
            [2, 3, 2, 3]
        """
        alone, other = replace(self, layers=1, every=1), AttentionKind(rotary=self.rotary)
        return tuple(other if layer % self.every else alone for layer in range(1, self.layers + 1))


RADII = (0.5, 1.0, 2.0, 4.0)
"""The bounds R on the scores of order 3 that are compared."""

MECHANISMS = {
    "linear elu": AttentionKind(features="elu"),
    "linear taylor2": AttentionKind(features="taylor2"),
    "order 2": AttentionKind(),
    "order 2, R = 4": AttentionKind(bound=4.0),
    "order 2, two layers": AttentionKind(layers=2),
    **{f"order 3, R = {R:g}": AttentionKind(3, R) for R in RADII},
    "order 3": AttentionKind(3),
}
"""The attentions that are compared, by name; R bounds the scores."""

LAYERED = {
    "four layers of order 2": AttentionKind(layers=4, rotary=10000.0),
    "four layers, the last of order 3": AttentionKind(3, layers=4, windows=(512, 32), every=4, rotary=10000.0),
}
"""The attentions of the language models that are compared, by name.

One layer in four has order 3, with windows of 512 and 32 tokens, as in published models with such layers. Every layer
has rotary positions.
"""

LAYERED_PRODUCT = {
    "four layers, the last a product of two order 2": AttentionKind(
        3, layers=4, windows=(512, 32), every=4, rotary=10000.0, form="separate"
    )
}
"""The language model whose last layer has a product of two order-2 attentions, in the windows of order 3."""

BOTH = ("qk_norm", "head_norm")
JOINING = {
    "order 2, both norms": AttentionKind(norms=BOTH),
    "order 2, two layers, both norms": AttentionKind(layers=2, norms=BOTH),
    "product of two order 2, both norms": AttentionKind(3, form="separate", norms=BOTH),
    "order 3, both norms": AttentionKind(3, norms=BOTH),
}
"""The attentions that are compared on joins, by name; all have `qk_norm` and `head_norm`."""

JOINING_ALIKE = {
    **JOINING,
    "pairwise order 3, both norms": AttentionKind(3, form="pairwise", norms=BOTH),
    "determinant order 3, both norms": AttentionKind(3, form="determinant", norms=BOTH),
    "orders 2 and 3 mixed, both norms": AttentionKind(3, form="mixed", norms=BOTH),
}
"""The attentions that are compared on joins, each with the best of the same learning rates, by name."""

LAYERS = {
    "order 3": AttentionKind(3),
    "order 3, scale 1/d": AttentionKind(3, power=1.0),
    "order 3, qk_norm": AttentionKind(3, norms=("qk_norm",)),
    "order 3, head_norm": AttentionKind(3, norms=("head_norm",)),
    "order 3, both norms": JOINING["order 3, both norms"],
    "order 3, learned_scale": AttentionKind(3, norms=("learned_scale",)),
    "order 3, LayerNorm after": AttentionKind(3, norms=("layer_norm",)),
}
"""The settings of a layer of order 3 that are compared, by name; the scale is 1/sqrt(d) unless the name has another.
"""

FURTHER_LAYERS = {
    "order 3, value_norm": AttentionKind(3, norms=("value_norm",)),
    "orders 2 and 3 mixed": AttentionKind(3, form="mixed"),
}
"""Further settings that are compared with the first of `LAYERS`, by name."""

SEPARATE = {"product of two order 2": AttentionKind(3, form="separate")}
"""The product of two order-2 attentions without norms, the baseline of order 3 in `MECHANISMS`."""

KNOWN = MECHANISMS | LAYERED | LAYERED_PRODUCT | JOINING_ALIKE | LAYERS | FURTHER_LAYERS | SEPARATE
"""All attentions that have a name."""


def mechanism(name: str) -> AttentionKind:
    """The mechanism of this name in `KNOWN`; the error for an unknown name lists all names."""
    if name not in KNOWN:
        raise ArgumentError("mechanism", expected=" or ".join(KNOWN), got=repr(name))
    return KNOWN[name]


def layer_of(
    kind: AttentionKind, width: int, heads: int, tolerance: float | None, generator: torch.Generator
) -> TensorAttention | LinearAttention | ProductAttention | MixedAttention:
    """The layer of an attention; unbounded scores initially have standard deviation 1.

    Args:
        kind: The attention of one layer.
        width: The dimension of the embedding.
        heads: The number of heads.
        tolerance: The tolerance of a bounded layer, which then computes by the polynomial method; None for exact
            softmax of bounded scores.
        generator: Draws the initial weights.
    """
    if kind.features is not None:
        return LinearAttention(width, heads, kind.features, generator=generator)
    if kind.bound is None:
        scale = (heads / width) ** kind.power
        norms = dict.fromkeys((norm for norm in kind.norms if norm not in ("value_norm", "layer_norm")), True)
        if kind.form == "separate":
            where: dict[str, Any] = {"windows": kind.windows, "rotary": kind.rotary}
            return ProductAttention(width, heads, kind.order, scale, tuple(norms), **where, generator=generator)
        if kind.form == "mixed":
            return MixedAttention(width, heads, scale, tuple(norms), generator=generator)
        places = {"windows": kind.windows, "rotary": kind.rotary, "form": kind.form}
        layer = ValueNormAttention if "value_norm" in kind.norms else TensorAttention
        return layer(width, heads, kind.order, scale=scale, **places, **norms, generator=generator)  # type: ignore[arg-type]
    method = "auto" if tolerance is None else "polynomial"
    return TensorAttention(
        width, heads, kind.order, method=method, bound=kind.bound, tolerance=tolerance, generator=generator
    )


class LinearAttention(nn.Module):
    """Multi-head linear attention, with the projections, initial weights and interface of `TensorAttention`.

    Queries and keys are divided by d^(1/4) each before the feature map, d the head dimension: inner products initially
    have standard deviation 1, as the scores of softmax attention.

    >>> layer = LinearAttention(8, 2, "elu", generator=torch.Generator().manual_seed(0))
    >>> layer(torch.zeros(4, 5, 8), is_causal=True).shape
    torch.Size([4, 5, 8])
    """

    def __init__(self, embed_dim: int, num_heads: int, features: str, *, generator: torch.Generator) -> None:
        super().__init__()
        self.num_heads, self.features = num_heads, features
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (linear(embed_dim, embed_dim, generator) for _ in "qkvo")

    def forward(self, query: Tensor, key: Tensor | None = None, *, is_causal: bool = False) -> Tensor:
        """The outputs for queries (batch, L, width) and keys (batch, S, width), which are the queries by default."""
        key = query if key is None else key
        q, k, v = self._heads(self.q_proj(query)), self._heads(self.k_proj(key)), self._heads(self.v_proj(key))
        root = q.shape[-1] ** 0.25
        heads = linear_attention(q / root, k / root, v, feature_map=self.features, is_causal=is_causal)
        out: Tensor = self.out_proj(heads.transpose(-3, -2).flatten(-2))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.num_heads, -1).transpose(-3, -2)


class ProductAttention(nn.Module):
    """The product of k - 1 order-2 attentions, with the projections of `TensorAttention` of order k.

    Head by head, out = prod_m softmax(scale q . k_m) v_m: order-k attention whose scores are the sums of q . k_m, so
    that no score depends on two keys jointly. The norms are those of `TensorAttention`; `head_norm` normalises the
    product. Windows and rotary positions, for causal self-attention, are those of order 2 in each factor.

    Example:
        >>> layer = ProductAttention(8, 2, 3, 0.5, ("head_norm",), generator=torch.Generator().manual_seed(0))
        >>> layer(torch.zeros(4, 5, 8), is_causal=True).shape
        torch.Size([4, 5, 8])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        order: int,
        scale: float,
        norms: tuple[str, ...] = (),
        *,
        windows: tuple[int, ...] | None = None,
        rotary: float | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.windows, self.rotary = windows or (None,) * (order - 1), rotary
        options = dict.fromkeys(norms, True)
        self.factors = TensorAttention(embed_dim, num_heads, order, scale=scale, **options, generator=generator)  # type: ignore[arg-type]

    def forward(self, query: Tensor, key: Tensor | None = None, *, is_causal: bool = False) -> Tensor:
        """The outputs for queries (batch, L, width) and keys (batch, S, width), which are the queries by default."""
        key = query if key is None else key
        q, keys, values = self.factors.project(query, key, key)
        if self.rotary is not None:
            q, *keys = (rotary(x, role, 2, base=self.rotary) for x, role in ((q, 0), *((key, 1) for key in keys)))
        heads = [
            tensor_attention(q, [k], [v], scale=self.factors.scale, is_causal=is_causal, windows=[window])
            for k, v, window in zip(keys, values, self.windows, strict=True)
        ]
        product = math.prod(heads[1:], start=heads[0])
        if self.factors.head_norm:
            product = normalise_heads(product, self.factors.out_gain)
        out: Tensor = self.factors.out_proj(product.transpose(-3, -2).flatten(-2))
        return out


class ValueNormAttention(TensorAttention):
    """`TensorAttention` whose values are divided by their root mean square, head by head, with learned gains.

    Example:
        >>> layer = ValueNormAttention(8, 2, generator=torch.Generator().manual_seed(0))
        >>> _, _, values = layer.project(*[torch.ones(5, 8)] * 3)
        >>> [round(value.square().mean().item(), 4) for value in values]
        [1.0, 1.0]
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.v_gain = nn.ParameterList(nn.Parameter(torch.ones(self.embed_dim)) for _ in self.v_proj)

    def project(
        self, query: Tensor, key: Tensor | Sequence[Tensor], value: Tensor | Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The queries, keys and normalised values of the heads: see `TensorAttention.project`."""
        q, keys, values = super().project(query, key, value)
        return q, keys, [normalise_heads(value, gain) for value, gain in zip(values, self.v_gain, strict=True)]


class MixedAttention(nn.Module):
    """Attention whose heads have order 2 (the first half) and order 3 (the other half).

    The second key and value sets, which order 2 does not have, are projected for the other half alone. The norms are
    those of `TensorAttention`. A `TensorAttention` with a list of orders computes the same from the same weights. It
    draws other initial weights and adds up gradients in another order, so the recorded runs would change with it.

    Example:
        >>> layer = MixedAttention(8, 2, 0.5, ("qk_norm",), generator=torch.Generator().manual_seed(0))
        >>> layer(torch.zeros(4, 5, 8), is_causal=True).shape
        torch.Size([4, 5, 8])
    """

    def __init__(
        self, embed_dim: int, num_heads: int, scale: float, norms: tuple[str, ...] = (), *, generator: torch.Generator
    ) -> None:
        super().__init__()
        if num_heads % 2 or not set(norms) <= set(BOTH):
            raise ArgumentError("num_heads", expected="an even number, norms from qk_norm and head_norm", got=num_heads)
        self.num_heads, self.scale = num_heads, scale
        widths = {"q": embed_dim, "k1": embed_dim, "v1": embed_dim, "k2": embed_dim // 2, "v2": embed_dim // 2}
        self.projections = nn.ModuleDict({name: linear(embed_dim, w, generator) for name, w in widths.items()})
        self.out_proj = linear(embed_dim, embed_dim, generator)
        gains = {name: widths[name] for name in ("q", "k1", "k2") if "qk_norm" in norms}
        gains |= {"out": embed_dim} if "head_norm" in norms else {}
        self.gains = nn.ParameterDict({name: nn.Parameter(torch.ones(width)) for name, width in gains.items()})

    def forward(self, query: Tensor, key: Tensor | None = None, *, is_causal: bool = False) -> Tensor:
        """The outputs for queries (batch, L, width) and keys (batch, S, width), which are the queries by default."""
        key = query if key is None else key
        half = self.num_heads // 2
        q = self._heads("q", query, self.num_heads)
        k1, v1 = (self._heads(name, key, self.num_heads) for name in ("k1", "v1"))
        k2, v2 = (self._heads(name, key, half) for name in ("k2", "v2"))
        both = [
            tensor_attention(query, keys, values, scale=self.scale, is_causal=is_causal)
            for query, keys, values in (
                (q[:, :half], [k1[:, :half]], [v1[:, :half]]),
                (q[:, half:], [k1[:, half:], k2], [v1[:, half:], v2]),
            )
        ]
        heads = self._normalised("out", torch.cat(both, 1))
        out: Tensor = self.out_proj(heads.transpose(-3, -2).flatten(-2))
        return out

    def _heads(self, name: str, x: Tensor, heads: int) -> Tensor:
        projected = self.projections[name](x)
        return self._normalised(name, projected.reshape(*x.shape[:-1], heads, -1).transpose(-3, -2))

    def _normalised(self, name: str, x: Tensor) -> Tensor:
        return normalise_heads(x, self.gains[name]) if name in self.gains else x


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with Xavier-uniform weights drawn from `generator` and zero biases.

    The global random generator is not used.
    """
    linear: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
    nn.init.xavier_uniform_(linear.weight, generator=generator)
    nn.init.zeros_(linear.bias)
    return linear
