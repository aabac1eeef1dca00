"""Decoding: the cache of a layer, and causal self-attention that continues from the cached tokens."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from separatrix.attention.packed import sequence_boundaries
from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.attention.visible_keys import Places
from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.nn.cache import DecodingCache, TokenCache
from separatrix.nn.head_groups import kv_heads_of_sets
from separatrix.nn.layer_checks import check_cache, check_decoding, check_together, key_masks
from separatrix.nn.projections import local_kv_heads
from separatrix.nn.scoring import attend_exactly, rotated

if TYPE_CHECKING:
    from separatrix.nn.tensor_attention import TensorAttention


def cache_arguments(layer: TensorAttention) -> tuple[type[DecodingCache], dict[str, Any]]:
    """The class of a layer's caches, and the arguments that all its caches have in common."""
    if layer.kdim != layer.embed_dim or layer.vdim != layer.embed_dim:
        expected = f"kdim = vdim = embed_dim = {layer.embed_dim}, because a layer decodes its own inputs"
        raise ArgumentError("cache", expected=expected, got=f"kdim = {layer.kdim}, vdim = {layer.vdim}")
    if layer.lookahead:
        expected = "a layer with lookahead = 0, because a layer decodes causally"
        raise ArgumentError("cache", expected=expected, got=f"lookahead = {layer.lookahead}")
    if layer._score_bound is not None and layer.tolerance is not None:
        place = {"dtype": layer.temperature.dtype, "device": layer.temperature.device}
        return TensorAttentionState, {**layer._score_bound.state_arguments(), **place}
    windows = (None,) * (layer.order - 1) if layer.windows is None else layer.windows
    arguments: dict[str, Any] = {"windows": windows, "sinks": layer.sinks, "head_dim": layer.head_dim}
    of_sets = tuple(kv_heads_of_sets(layer.orders, layer.num_kv_heads)) if layer.has_mixed_orders else None
    arguments |= {"key_dim": layer.key_dim, "set_heads": of_sets}
    return TokenCache, arguments | {"dtype": layer.dtype, "device": layer.device}


def _cache_shape(layer: TensorAttention, batch_size: int | None) -> tuple[int, ...]:
    heads = local_kv_heads(layer)
    return (heads,) if batch_size is None else (batch_size, heads)


def new_cache(layer: TensorAttention, batch_size: int | None, spare: int) -> DecodingCache:
    """An empty cache of a layer: see `nn.TensorAttention.cache`."""
    if batch_size is not None:
        batch_size = whole("batch_size", batch_size, low=0)
    kind, arguments = cache_arguments(layer)
    shape = _cache_shape(layer, batch_size)
    if kind is TokenCache:
        return TokenCache(**arguments, batch_shape=shape, spare=spare)
    if spare != 0:
        raise ArgumentError("spare", expected="0 for a layer with a tolerance, whose cache stores no tokens", got=spare)
    return TensorAttentionState(**arguments, batch_shape=shape)


def decode_heads(
    layer: TensorAttention, x: Tensor, cache: DecodingCache, key_padding_mask: Tensor | None, prefix: int
) -> Tensor:
    """The outputs of the heads at the tokens x, (..., L, embed_dim), which are added to the cache.

    See `nn.TensorAttention.decode`.
    """
    check_cache(cache, *cache_arguments(layer), _cache_shape(layer, x.shape[0] if x.dim() == 3 else None))
    check_together(x, x, x, key_padding_mask)
    check_decoding(prefix, x.shape[-2], cache)
    return _extend(layer, *layer.project(x, x, x), cache, key_padding_mask, prefix)


def decode_packed(
    layer: TensorAttention,
    x: Tensor,
    caches: object,
    cu_seqlens: object,
    key_padding_mask: Tensor | None,
    prefix: int,
) -> Tensor:
    """The outputs of the heads at packed tokens x, (L, embed_dim), which are added to the caches of their sequences.

    Every argument is checked before a cache changes. See `nn.TensorAttention.decode`.
    """
    stops = sequence_boundaries("cu_seqlens", cu_seqlens)
    if x.dim() != 2 or x.shape[0] != stops[-1]:
        expected = f"packed tokens without a batch, ({stops[-1]}, embed_dim): the last entry of cu_seqlens"
        raise ArgumentError("x", expected=expected, got=f"shape {tuple(x.shape)}")
    if not isinstance(caches, (list, tuple)) or len(caches) != len(stops) - 1:
        got = f"{len(caches)} entries" if isinstance(caches, (list, tuple)) else type(caches).__name__
        expected = f"a list of {len(stops) - 1} results of layer.cache(), one for each packed sequence"
        raise ArgumentError("cache", expected=expected, got=got)
    if len({id(cache) for cache in caches}) != len(caches):
        raise ArgumentError("cache", expected="a cache of its own for each packed sequence", got="a cache twice")
    check_together(x, x, x, key_padding_mask)
    parts = [slice(start, stop) for start, stop in pairwise(stops)]
    for part, cache in zip(parts, caches, strict=True):
        check_cache(cache, *cache_arguments(layer), _cache_shape(layer, None))
        if part.start < part.stop:
            check_decoding(prefix, part.stop - part.start, cache)
    q, keys, values = layer.project(x, x, x)
    heads = [q.new_empty(*q.shape[:-2], 0, layer.head_dim)]
    for part, cache in zip(parts, caches, strict=True):
        if part.start < part.stop:
            own_keys, own_values = ([tensor[..., part, :] for tensor in tensors] for tensors in (keys, values))
            mask = None if key_padding_mask is None else key_padding_mask[part]
            heads.append(_extend(layer, q[..., part, :], own_keys, own_values, cache, mask, prefix))
    return torch.cat([outputs.to(heads[-1].dtype) for outputs in heads], -2)


def _extend(
    layer: TensorAttention,
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    cache: DecodingCache,
    key_padding_mask: Tensor | None,
    prefix: int,
) -> Tensor:
    """The outputs of the heads at new tokens, whose keys and values are added to a cache that was checked."""
    q, keys, values = q.to(cache.dtype), [k.to(cache.dtype) for k in keys], [v.to(cache.dtype) for v in values]
    if isinstance(cache, TensorAttentionState):
        return _extend_state(layer, q, keys, values, cache, key_padding_mask)
    with cache.guard.changing:
        start = cache.tokens[0]
        q, keys = rotated(layer, q, keys, start, start)
        keys, values = cache.joined(keys, values)
        padding = cache.padded(q.shape[-2], key_padding_mask)
        attended_keys, attended_values, options = cache.attended(keys, values, padding, aligned=layer.distinct)
        # A single query attends without an offset; it is then at position 0, at the end of every set.
        key_starts = None if "query_offset" in options else [1 - key.shape[-2] for key in attended_keys]
        sinks = 0 if options.get("windows") is None else layer.sinks
        places = Places(sinks=sinks, prefix=prefix if options.get("is_causal") else 0, distinct=layer.distinct)
        heads = attend_exactly(layer, q, attended_keys, attended_values, places, key_starts=key_starts, **options)
        cache.keep(keys, values, padding)
        return heads


def _extend_state(
    layer: TensorAttention,
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    state: TensorAttentionState,
    key_padding_mask: Tensor | None,
) -> Tensor:
    masks = key_masks([key_padding_mask] * (layer.order - 1))
    if layer.num_kv_heads == layer.num_heads:
        return state.extend(q, keys, values, key_masks=masks)
    shared = q.unflatten(-3, (-1, layer.num_heads // layer.num_kv_heads))
    return state.extend(shared, keys, values, key_masks=masks).flatten(-4, -3)
