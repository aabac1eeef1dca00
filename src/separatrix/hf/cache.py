"""The caches of a model's layers of `separatrix.nn` as one `Cache` of `transformers`, which `generate` passes on.

A `Cache` of `transformers` takes new keys and values and returns those of all tokens. A layer of `separatrix.nn` has
several sets of keys and values, or sums over them, and decodes with its own cache. This `Cache` contains the caches of
all layers, and `generate` counts, reorders and crops them.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from separatrix.attention.arithmetic.device_reads import truth
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.nn.cache import DecodingCache, TokenCache
from separatrix.nn.tensor_attention import TensorAttention


class LayerCache(Cache):
    """The tokens that each `nn.TensorAttention` of a model has decoded so far, as `past_key_values` of `transformers`.

    A model creates it in its ``forward`` and decodes with it (`separatrix.hf.TensorAttentionForCausalLM` is an
    example):

        cache = LayerCache.of(past_key_values)
        padding = key_padding_mask(attention_mask, hidden.shape[1])
        for index, layer in enumerate(self.layers):
            hidden = hidden + cache.decode(layer, hidden, index, key_padding_mask=padding)

    `generate` then counts its tokens, reorders it for a beam search and removes tokens in assisted generation. Removing
    tokens is possible for layers that store all tokens, but not for layers with a tolerance, which store sums.

    Example:
        >>> layer = TensorAttention(8, 2, generator=torch.Generator().manual_seed(0))
        >>> x = torch.randn(4, 10, 8, generator=torch.Generator().manual_seed(1))
        >>> cache = LayerCache()
        >>> parts = [cache.decode(layer, x[:, :7], 0), cache.decode(layer, x[:, 7:], 0)]
        >>> torch.allclose(torch.cat(parts, 1), layer(x, is_causal=True), atol=1e-6)
        True
        >>> cache.get_seq_length()
        10
    """

    def __init__(self) -> None:
        super().__init__(layers=[])

    @classmethod
    def of(cls, past_key_values: Cache | None) -> Self:
        """The given cache, or a new one for None and for the empty `DynamicCache` that `generate` creates.

        Raises:
            ArgumentError: `past_key_values` is another kind of cache with tokens, or not a cache of `transformers`.
        """
        if isinstance(past_key_values, cls):
            return past_key_values
        if past_key_values is None or (isinstance(past_key_values, Cache) and past_key_values.get_seq_length() == 0):
            return cls()
        raise ArgumentError(
            "past_key_values", expected=f"None or a {cls.__name__}", got=f"{type(past_key_values).__name__} with tokens"
        )

    def decode(
        self, layer: TensorAttention, x: Tensor, layer_idx: int, *, key_padding_mask: Tensor | None = None
    ) -> Tensor:
        """Append the tokens x to the cache of a layer and return their outputs: `nn.TensorAttention.decode`.

        Args:
            layer: The layer.
            x: The new tokens, (batch, L, embed_dim), or (L, batch, embed_dim) if the layer is not ``batch_first``.
            layer_idx: The index of the layer in its model, from 0; the first calls must be in this order.
            key_padding_mask: As in `nn.TensorAttention.decode`: (batch, L), True for padding.
        """
        if not isinstance(layer, TensorAttention):
            raise ArgumentError("layer", expected="a nn.TensorAttention", got=type(layer).__name__)
        if not 0 <= layer_idx <= len(self.layers):
            raise ArgumentError("layer_idx", expected=f"0 to {len(self.layers)}, the next layer", got=layer_idx)
        if layer_idx == len(self.layers):
            self.layers.append(_DecodedTokens())
        tokens = self.layers[layer_idx]
        assert isinstance(tokens, _DecodedTokens)
        return tokens.decode(layer, x, key_padding_mask)


class _DecodedTokens(CacheLayerMixin):
    """The cache of one layer; `keys` and `values` of the base class stay None."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tokens: DecodingCache | None = None

    def decode(self, layer: TensorAttention, x: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        if self.tokens is None:
            self.tokens = layer.cache(x.shape[0 if layer.batch_first else 1])
            self.is_initialized = True
        return layer.decode(x, self.tokens, key_padding_mask=key_padding_mask)

    @property
    def batch_size(self) -> int:
        return -1 if self.tokens is None else self.tokens.batch_shape[0]

    @property
    def is_croppable(self) -> bool:  # type: ignore[override]
        """Whether `crop` can remove any number of tokens."""
        return isinstance(self.tokens, TokenCache) and all(window is None for window in self.tokens.windows)

    def get_seq_length(self) -> int:
        return 0 if self.tokens is None else self.tokens.tokens[0]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + int(query_length), 0

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length  # the name in transformers 5.4

    def crop(self, count: int) -> None:
        """Remove the last -count tokens; a positive count, in transformers 5.4, is the number of tokens to keep."""
        if self.tokens is not None and count != 0:
            length = self.get_seq_length()
            self.tokens.trim(length + count if count < 0 else min(count, length))

    def reset(self) -> None:
        self.tokens, self.is_initialized = None, False

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.tokens is not None:
            self.tokens.reorder(beam_idx)

    batch_select_indices = reorder_cache

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.tokens is not None:
            self.tokens.reorder(torch.arange(self.batch_size).repeat_interleave(repeats))

    def offload(self) -> NoReturn:
        raise SeparatrixError("offloading: a LayerCache stays on the device of its layers; leave offloading out.")

    prefetch = offload

    def lazy_initialization(self, *_: Any) -> NoReturn:
        raise SeparatrixError("a LayerCache has no single set of keys and values: call its `decode` with the layer.")

    def update(self, *_: Any, **__: Any) -> NoReturn:
        self.lazy_initialization()


def key_padding_mask(attention_mask: Tensor | None, length: int) -> Tensor | None:
    """The padding among the last `length` tokens, as `nn.TensorAttention` takes it; None if there is none.

    Args:
        attention_mask: The mask that tokenizers and `generate` return, (batch, tokens so far): 1 or True for a token, 0
            or False for padding.
        length: The number of new tokens.

    Returns:
        A bool tensor (batch, length), True for padding; or None, with which layers are faster.

    Example:
        >>> key_padding_mask(torch.tensor([[0, 1, 1], [1, 1, 1]]), 3)
        tensor([[ True, False, False],
                [False, False, False]])
        >>> key_padding_mask(torch.tensor([[0, 1, 1], [1, 1, 1]]), 2) is None
        True
    """
    if attention_mask is None:
        return None
    if attention_mask.dim() != 2 or attention_mask.shape[1] < length:
        expected = f"shape (batch, tokens so far), {length} or more of them"
        raise ArgumentError("attention_mask", expected=expected, got=f"shape {tuple(attention_mask.shape)}")
    padding = attention_mask[:, attention_mask.shape[1] - length :] == 0
    return padding if truth(padding.any()) else None
