"""The attention of the heads of a layer: rotary positions, score form, biases and masks.

In a layer without a bound, the projected queries and keys have head_dim coordinates, which in keys are followed by the
factors of `key_bias`; `factors` maps both to the product form. In a layer with a bound they are mapped already: see
`score_bound`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from separatrix.attention.call import check_call
from separatrix.attention.forms.factorised import pairwise_attention
from separatrix.attention.forms.maps import MAPS, alibi_slopes, key_bias
from separatrix.attention.forms.maps import alibi as with_alibi
from separatrix.attention.forms.rotary_positions import rotate_heads
from separatrix.attention.near_linear.bounded_attention import bounded_attention
from separatrix.attention.operator import tensor_attention
from separatrix.attention.visible_keys import Places, attend_places
from separatrix.errors import ArgumentError
from separatrix.nn.head_groups import head_groups, join_groups, local_part, options_of
from separatrix.nn.layer_checks import check_distances

if TYPE_CHECKING:
    from separatrix.nn.tensor_attention import TensorAttention


def scoring(layer: TensorAttention) -> dict[str, Any]:
    """The arguments of attention that are the same in every call of a layer."""
    scale = 1 / layer.head_dim if layer.scale is None else layer.scale
    shared = layer.num_kv_heads < layer.num_heads
    return {"scale": scale if layer.bound is None else layer.bound, "enable_gqa": shared}


def attend_heads(
    layer: TensorAttention, q: Tensor, keys: list[Tensor], values: list[Tensor], *, prefix: int = 0, **options: Any
) -> Tensor:
    """The outputs of the heads, (..., num_heads, L, head_dim), in a call of a layer.

    Queries (..., num_heads, L, head_dim) are at the positions from `query_offset` on, and keys (..., num_kv_heads, S,
    head_dim) at those from 0 on. The options are `is_causal`, `query_offset` and `key_masks` of `tensor_attention`.
    """
    plan = layer.plan
    if plan is not None:
        if prefix:
            raise ArgumentError("prefix", expected="0 for a layer with a tolerance", got=prefix)
        call = check_call(q, keys, values, **options, **scoring(layer))
        return bounded_attention(plan, call, may_be_exact=layer.method != "polynomial")
    q, keys = positioned(layer, q, keys, options["is_causal"], options["query_offset"])
    places = Places(layer.lookahead, layer.sinks, prefix, layer.distinct)
    return attend_exactly(layer, q, keys, values, places, windows=layer.windows, **options)


def positioned(
    layer: TensorAttention, q: Tensor, keys: list[Tensor], is_causal: bool, query_offset: int
) -> tuple[Tensor, list[Tensor]]:
    """Queries and keys with the rotary positions of a call; an `ArgumentError` if ALiBi does not fit the call."""
    check_distances(layer.alibi, is_causal, layer.windows)
    return rotated(layer, q, keys, query_offset, 0)


def rotated(
    layer: TensorAttention, q: Tensor, keys: list[Tensor], query_start: int, key_start: int
) -> tuple[Tensor, list[Tensor]]:
    """Queries and keys with rotary positions, which begin at `query_start` and `key_start`.

    The factors of `key_bias` are not rotated.
    """
    if layer.rotary is None:
        return q, keys
    d = layer.head_dim
    how: dict[str, Any] = {"base": layer.rotary, "form": layer.form}
    how |= {"query_start": query_start, "key_start": key_start}
    if not layer.has_mixed_orders:
        q, turned = rotate_heads(q, [key[..., :d] for key in keys], **how)
    else:
        groups = [group.part(q, [key[..., :d] for key in keys]) for group in head_groups(layer)]
        q, turned = join_groups([rotate_heads(part, own_keys, **how) for part, (own_keys,) in groups])
    if layer.key_bias == 0:
        return q, turned
    return q, [torch.cat([new, key[..., d:]], -1) for new, key in zip(turned, keys, strict=True)]


def attend_exactly(
    layer: TensorAttention,
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    places: Places,
    *,
    key_starts: Sequence[int] | None = None,
    **options: Any,
) -> Tensor:
    """The outputs of the heads by exact attention, from queries and keys that have their rotary positions.

    `places` are the sinks, the prefix and so on, and `key_starts` the positions of the first keys, None for 0; the
    options are further arguments of `tensor_attention`.
    """
    if not layer.has_mixed_orders:
        return _attend_alike(layer, q, keys, values, places, key_starts=key_starts, **options)
    outputs = []
    for group in head_groups(layer):
        part, (own_keys, own_values) = group.part(q, keys, values)
        own_options = options_of(group, {**options, "key_starts": key_starts})
        own_places = places
        if all(window is None for window in own_options.get("windows") or [None]):
            own_options["windows"], own_places = None, replace(places, lookahead=0, sinks=0)
        outputs.append(_attend_alike(layer, part, own_keys, own_values, own_places, heads=group.heads, **own_options))
    return torch.cat(outputs, -3)


def _attend_alike(
    layer: TensorAttention,
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    places: Places,
    *,
    key_starts: Sequence[int] | None = None,
    heads: slice = slice(None),
    **options: Any,
) -> Tensor:
    """The outputs of heads of one order, which are the slice `heads` of the layer's heads."""
    options |= scoring(layer)
    attend: Callable[..., Any] = pairwise_attention
    if layer.form != "pairwise" or layer.bound or layer.alibi or layer.key_bias or places.distinct:
        q, keys = factors(layer, q, keys, options.get("query_offset", 0), key_starts, heads)
        attend = partial(tensor_attention, method=layer.method)
    if places == Places():
        return attend(q, keys, values, **options)  # type: ignore[no-any-return]
    return attend_places(partial(attend, return_lse=True), q, keys, values, places, **options)[0]


def factors(
    layer: TensorAttention,
    q: Tensor,
    keys: list[Tensor],
    query_offset: int,
    key_starts: Sequence[int] | None = None,
    heads: slice = slice(None),
) -> tuple[Tensor, list[Tensor]]:
    """Queries and keys of heads of one order whose product form equals the layer's score form plus its biases.

    `query_offset` and `key_starts` are the positions of the first query and of the first keys, None for 0, and `heads`
    is the slice of these heads in the layer's heads.
    """
    scale = scoring(layer)["scale"]
    if layer.bound is None:
        bias = [key[..., layer.head_dim :] for key in keys]
        q, keys = MAPS[layer.form](q, [key[..., : layer.head_dim] for key in keys])
        if layer.key_bias:
            q, keys = key_bias(q, keys, bias, scale=scale)
    if layer.alibi is None:
        return q, keys
    slopes = local_part(alibi_slopes(layer.num_heads), layer.q_proj)[heads]
    of_sets = [factor * slopes for factor in layer.alibi[: len(keys)]]
    return with_alibi(q, keys, of_sets, scale=scale, query_offset=query_offset, key_starts=key_starts)
