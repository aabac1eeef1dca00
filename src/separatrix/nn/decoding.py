"""Decoding: causal self-attention that goes on from a cache of the tokens so far, however a sequence is cut."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.errors import ArgumentError
from separatrix.nn.cache import TokenCache
from separatrix.nn.exact_heads import ExactHeads
from separatrix.nn.projections import check_integer, check_together

Cache = TokenCache | TensorAttentionState
"""What a layer decodes with: the tokens, or the sums of a layer with a tolerance."""


class Decoding(ExactHeads):
    """A layer that decodes: it makes a cache, appends tokens to it and attends all tokens in it.

    With a tolerance its cache is a sum of all tokens (see `BoundedTensorAttention`).
    """

    def cache(self, batch_size: int | None = None, *, spare: int = 0) -> Cache:
        """An empty cache for `decode`, of one sequence without a batch or of `batch_size` of them.

        Args:
            batch_size: How many sequences are decoded at once; None for inputs without a batch.
            spare: How many tokens a cache with windows can be trimmed by at any time: it holds so many more.

        Returns:
            A `TokenCache` of all keys and values, which with `windows` holds those that the next token can attend. For
            a layer with a tolerance it is a `TensorAttentionState` of constant size. Both can be saved (`state_dict`)
            and reordered for a beam search (`reorder`); tokens can be taken back by `trim` where they are held.
        """
        self._check_batch_size(batch_size)
        windows = (None,) * (self.order - 1) if self.windows is None else self.windows
        shape = self._cache_shape(batch_size)
        return TokenCache(windows, self.head_dim, shape, spare=spare, dtype=self.dtype, device=self.device)

    def _check_batch_size(self, batch_size: int | None) -> None:
        if batch_size is not None:
            check_integer("batch_size", batch_size, 0)
        if self.kdim != self.embed_dim or self.vdim != self.embed_dim:
            expected = f"kdim = vdim = embed_dim = {self.embed_dim}, because a layer decodes its own inputs"
            raise ArgumentError("cache", expected=expected, got=f"kdim = {self.kdim}, vdim = {self.vdim}")

    def _cache_shape(self, batch_size: int | None) -> tuple[int, ...]:
        heads = self._local_kv_heads
        return (heads,) if batch_size is None else (batch_size, heads)

    def state(self, batch_size: int | None = None) -> TensorAttentionState:
        """The `cache` of a layer with a tolerance, by the name that says what it is."""
        found = self.cache(batch_size)
        if not isinstance(found, TensorAttentionState):
            raise self._without_tolerance("state")
        return found

    def _without_tolerance(self, name: str) -> ArgumentError:
        return ArgumentError(name, expected="a layer with a bound and a tolerance", got=repr(self.extra_repr()))

    def decode(self, x: Tensor, cache: Cache, *, key_padding_mask: Tensor | None = None) -> Tensor:
        """Append the tokens x to a cache and give the outputs of all of them: causal self-attention that goes on.

        However a sequence is cut into calls, a prompt of many tokens and then one token at a time, together they give
        what ``layer(sequence, is_causal=True)`` gives: up to rounding, or up to its tolerance in a layer that has one.

        Args:
            x: The tokens, (batch, L, embed_dim) or (L, embed_dim), as the layer's other inputs.
            cache: What ``layer.cache(batch_size)`` gave, with all earlier tokens; these are added to it.
            key_padding_mask: A bool tensor, (batch, L) or (L,), **True for each of these tokens that no token may
                attend**, now or later, as in a call: prompts of several lengths are padded on the left or the right.
                The cache remembers it, or, in a layer with a tolerance, leaves them out of its sums. Padding takes a
                position like any other token.

        Returns:
            The outputs, shaped like `x`.

        Raises:
            ArgumentError: The cache is none, or another layer's, or x or the mask does not fit it. Nothing is added
                then.
            SeparatrixError: As in a call of the layer; or another thread is using the cache.

        Example:
            >>> import torch
            >>> from separatrix.nn import TensorAttention
            >>> layer = TensorAttention(8, 2, order=3, generator=torch.Generator().manual_seed(0))
            >>> x = torch.randn(4, 10, 8, generator=torch.Generator().manual_seed(1))
            >>> cache = layer.cache(batch_size=4)
            >>> prompt = layer.decode(x[:, :7], cache)
            >>> rest = [layer.decode(x[:, i : i + 1], cache) for i in range(7, 10)]
            >>> torch.allclose(torch.cat([prompt, *rest], 1), layer(x, is_causal=True), atol=1e-6)
            True
        """
        self.check("x", x, self.embed_dim)
        if x.dim() > 3:
            raise ArgumentError("x", expected="at most one batch dimension", got=f"shape {tuple(x.shape)}")
        x = x if self.batch_first else x.movedim(0, -2)
        self._check_cache(cache, x)
        check_together(x, x, x, key_padding_mask)
        q, keys, values = self.project(x, x, x)
        q, keys, values = q.to(cache.dtype), [k.to(cache.dtype) for k in keys], [v.to(cache.dtype) for v in values]
        if isinstance(cache, TensorAttentionState):
            seen = None if key_padding_mask is None else [~key_padding_mask.unsqueeze(-2)] * len(keys)
            return self.joined(self._extend(cache, q, keys, values, seen))
        with cache.guard.changing:
            before, start = cache.held, cache.tokens[0]
            q, keys = self._placed(q, keys, start, start)
            keys, values = cache.joined(keys, values)
            padding = cache.padded(q.shape[-2], key_padding_mask)
            heads = self._attend_held(q, keys, values, padding, before, cache.windows)
            cache.keep(keys, values, padding)
            return self.joined(heads)

    def _extend(
        self,
        state: TensorAttentionState,
        q: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        masks: list[Tensor] | None,
    ) -> Tensor:
        if self.num_kv_heads == self.num_heads:
            return state.extend(q, keys, values, key_masks=masks)
        shared = q.unflatten(-3, (-1, self.num_heads // self.num_kv_heads))
        return state.extend(shared, keys, values, key_masks=masks).flatten(-4, -3)

    def _attend_held(
        self,
        q: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        padding: Tensor | None,
        before: tuple[int, ...],
        windows: tuple[int | None, ...],
    ) -> Tensor:
        """The outputs of new tokens; of those before them, `before[m]` of set m are left.

        `padding` is of the set of which most are left.
        """
        seen = None if padding is None else ~padding.unsqueeze(-2)
        if q.shape[-2] == 1:  # it attends whatever its windows reach
            keys, values = (
                [x if w is None else x[..., -w:, :] for x, w in zip(sets, windows, strict=True)]
                for sets in (keys, values)
            )
            masks = None if seen is None else [seen[..., seen.shape[-1] - key.shape[-2] :] for key in keys]
            return self._exact(q, keys, values, masks, False, 0, None)
        # The sets are made equally long in front, with tokens beyond their windows.
        offset = max(before)
        keys, values = (
            [pad(x, (0, 0, offset - count, 0)) if count < offset else x for x, count in zip(sets, before, strict=True)]
            for sets in (keys, values)
        )
        return self._exact(q, keys, values, None if seen is None else [seen] * len(keys), True, offset, self.windows)

    def _check_cache(self, cache: Cache, x: Tensor) -> None:
        """Raise an `ArgumentError` unless a cache is one of this layer's, for the batch of x."""
        expected = f"what cache({'batch_size' if x.dim() == 3 else ''}) of the layer gives"
        if not isinstance(cache, (TokenCache, TensorAttentionState)):
            raise ArgumentError("cache", expected=expected, got=type(cache).__name__)
        wanted, got = self._kind_of_cache(), _kind(cache)
        if wanted != got:
            name = next(name for name in (*wanted, *got) if wanted.get(name) != got.get(name))
            raise ArgumentError(
                "cache", expected=f"{expected}: {name} = {wanted.get(name)}", got=f"{name} = {got.get(name)}"
            )
        shape = self._cache_shape(x.shape[0] if x.dim() == 3 else None)
        if cache.batch_shape != shape:
            if len(shape) == len(cache.batch_shape) and shape[:-1] == cache.batch_shape[:-1]:
                heads = [f"{sizes[-1]} heads of keys" for sizes in (shape, cache.batch_shape)]
                raise ArgumentError("cache", expected=f"{heads[0]}, as the layer has on this rank", got=heads[1])
            batches = [
                f"a batch of {sizes[0]}" if len(sizes) == 2 else "no batch" for sizes in (shape, cache.batch_shape)
            ]
            raise ArgumentError("cache", expected=f"{batches[0]}, as x has", got=batches[1])

    def _kind_of_cache(self) -> dict[str, object]:
        windows = (None,) * (self.order - 1) if self.windows is None else self.windows
        found: dict[str, object] = {"type": "TokenCache", "head_dim": self.head_dim, "windows": windows}
        return found | {"dtype": self.dtype, "device": self.device}


def _kind(cache: Cache) -> dict[str, object]:
    """What a cache has to have in common with those of a layer."""
    found: dict[str, object] = {"type": type(cache).__name__, "head_dim": cache.head_dim}
    if isinstance(cache, TokenCache):
        found["windows"] = cache.windows
    else:
        found |= {"order": cache.order, "norm": cache.norm, "bound": cache.bound, "scale": cache.scale}
        found["tolerance"] = cache.tolerance
    return found | {"dtype": cache.dtype, "device": cache.device}
