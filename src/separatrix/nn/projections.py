"""The projections and norms of a layer: initial weights, and the queries, keys and values of the heads.

The norm of the arguments `qk_norm` and `head_norm` is RMS normalisation of the vectors of heads. Its gains are one
vector (heads * head_dim,), so that tensor parallelism divides them between ranks as it divides the heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from separatrix.errors import ArgumentError
from separatrix.nn.head_groups import kv_heads_of_sets, local_heads, local_part

if TYPE_CHECKING:
    from separatrix.nn.tensor_attention import TensorAttention


EPSILON = 1e-16
"""The number added to the mean square before the square root. Initially the outputs of heads of order k over n tokens
have a mean square of about n^(1 - k): the epsilon of `nn.RMSNorm`, 1.2e-7 in float32, would leave outputs of order 4
over 1,000 tokens small."""


def normalise_heads(x: Tensor, gain: Tensor) -> Tensor:
    """Each vector of x (..., heads, length, head_dim) divided by its root mean square and multiplied by the gain of its
    head.

    A vector of zeros stays zero.

    `gain` (heads * head_dim,) has the gains of all heads in x. The result has the dtype of x.

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


def empty_linear(
    inputs: int, outputs: int, bias: bool, device: torch.device | str | None, dtype: torch.dtype | None
) -> nn.Linear:
    """A linear module whose weights are not initialised.

    The constructor of `nn.Linear` draws weights from the global generator, unless the device is "meta".
    """
    empty = nn.Linear(inputs, outputs, bias=bias, device="meta", dtype=dtype)
    return empty.to_empty(device=torch.empty(0).device if device is None else device)


def draw_weights(layer: nn.Module, embed_dim: int, generator: torch.Generator | None) -> None:
    """Draw every weight, Xavier-uniform, and set every bias to zero and every gain to one.

    With `num_kv_heads` < num_heads, key and value weights have the variance of a layer with all heads. The factors of
    `key_bias` in the first key set are zero, and with them the bias.
    """
    for name, parameter in layer.named_parameters():
        if "_gain" in name:
            nn.init.ones_(parameter)
        elif name == "bias_proj.0.weight":
            nn.init.zeros_(parameter)
        elif parameter.dim() == 2:
            outputs, inputs = parameter.shape
            gain = math.sqrt((inputs + outputs) / (inputs + embed_dim))
            nn.init.xavier_uniform_(parameter, gain, generator=generator)
        else:
            nn.init.zeros_(parameter)


def local_kv_heads(layer: TensorAttention) -> int:
    """The number of heads of keys and values on this rank."""
    return local_heads("num_kv_heads", layer.num_kv_heads, layer.k_proj[0])


def project_heads(
    layer: TensorAttention, query: Tensor, key: Tensor | Sequence[Tensor], value: Tensor | Sequence[Tensor]
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The queries, keys and values of the heads of a layer: see `nn.TensorAttention.project`."""
    heads, kv_heads = local_heads("num_heads", layer.num_heads, layer.q_proj), local_kv_heads(layer)

    def split(x: Tensor, heads: int, width: int = layer.head_dim) -> Tensor:
        return x.reshape(*x.shape[:-1], heads, width).transpose(-3, -2)

    q = split(layer.q_proj(query), heads)
    of_keys, of_values = ([x] * (layer.order - 1) if isinstance(x, Tensor) else [*x] for x in (key, value))
    of_sets = [kv_heads] * (layer.order - 1)
    if layer.has_mixed_orders:
        if heads != layer.num_heads:
            expected = "one order for all heads, if tensor parallelism divides them between ranks"
            raise ArgumentError("order", expected=expected, got=list(layer.orders))
        of_sets = kv_heads_of_sets(layer.orders, layer.num_kv_heads)

    def of_each(projections: nn.ModuleList, inputs: list[Tensor], width: int = layer.head_dim) -> list[Tensor]:
        triples = zip(projections, inputs, of_sets, strict=True)
        return [split(project(x), count, width) for project, x, count in triples]

    keys, values = of_each(layer.k_proj, of_keys), of_each(layer.v_proj, of_values)
    bias = of_each(layer.bias_proj, of_keys, layer.key_bias) if layer.key_bias else []
    if layer.qk_norm:
        q = normalise_heads(q, local_part(layer.q_gain, layer.q_proj))
        gains = [local_part(gain, projection) for gain, projection in zip(layer.k_gain, layer.k_proj, strict=True)]
        keys = [normalise_heads(key, gain) for key, gain in zip(keys, gains, strict=True)]
    if layer.learned_scale:
        factor = local_part(layer.log_scale, layer.q_proj).exp()
        q = (q * factor.unsqueeze(-1).unsqueeze(-1)).to(q.dtype)
    if layer._score_bound is not None:
        return layer._score_bound.apply(q, keys, bias, values, local_part(layer.temperature, layer.q_proj))
    if layer.key_bias:
        keys = [torch.cat([key, factors.to(key.dtype)], -1) for key, factors in zip(keys, bias, strict=True)]
    return q, keys, values
