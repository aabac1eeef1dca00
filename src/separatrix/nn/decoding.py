"""Decoding: the cache of a layer, and causal self-attention that continues from the cached tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from separatrix.attention.forms.rotary_positions import rotate_heads
from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.attention.visible_keys import Places
from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.nn.cache import DecodingCache, TokenCache
from separatrix.nn.layer_checks import check_cache, check_decoding, check_together, key_masks
from separatrix.nn.projections import local_kv_heads
from separatrix.nn.scoring import attend_exactly

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
    q, keys, values = layer.project(x, x, x)
    q, keys, values = q.to(cache.dtype), [k.to(cache.dtype) for k in keys], [v.to(cache.dtype) for v in values]
    if isinstance(cache, TensorAttentionState):
        return _extend_state(layer, q, keys, values, cache, key_padding_mask)
    with cache.guard.changing:
        start = cache.tokens[0]
        q, keys = rotate_heads(q, keys, base=layer.rotary, form=layer.form, query_start=start, key_start=start)
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
