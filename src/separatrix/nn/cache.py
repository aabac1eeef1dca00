"""The key/value cache of a layer: the keys and values of the decoded tokens, limited by its windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from separatrix.attention.streaming.saved_state import as_bytes, compare, from_bytes
from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.attention.streaming.thread_guard import ThreadGuard
from separatrix.attention.streaming.token_checks import batch_indices
from separatrix.checks import is_whole, whole
from separatrix.errors import ArgumentError

Window = int | None
_LEAST_ROOM = 16
"""The smallest capacity of a buffer, in tokens."""


class TokenCache:
    """The projected keys and values of all decoded tokens; for a set with a window w, of the last w - 1 tokens and the
    sinks.

    `nn.TensorAttention.cache` creates a cache for a layer that attends exactly, and `nn.TensorAttention.decode` appends
    to it. If every set has a window, the size of the cache is bounded. Only one thread may use a cache at a time:
    `decode` raises an error if another thread is using it.

    Args:
        windows: The window of each key set, or None; one entry per key set.
        head_dim: The dimension of keys and values.
        batch_shape: The leading dimensions of every key and value: the batch, if there is one, and the heads of keys.
        spare: The number of tokens that are kept beyond each window, which `trim` can remove.
        sinks: The number of first tokens that sets with a window keep as well.
        key_dim: The dimension of keys, if it differs from `head_dim`, which is then that of values.
        set_heads: The number of heads of each set, if the sets have fewer heads than `batch_shape`; None if they do
            not.
        dtype: The dtype of keys and values.
        device: The device of keys and values.

    Example:
        >>> cache = TokenCache((None, 4), 2, (3,))
        >>> cache.append([torch.ones(3, 10, 2)] * 2, [torch.ones(3, 10, 2)] * 2)
        >>> cache.tokens, cache.held
        ((10, 10), (10, 3))
    """

    def __init__(
        self,
        windows: Sequence[Window],
        head_dim: int,
        batch_shape: Sequence[int],
        *,
        spare: int = 0,
        sinks: int = 0,
        key_dim: int | None = None,
        set_heads: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if not is_whole(spare, low=0):
            raise ArgumentError("spare", expected="an integer >= 0", got=spare)
        self.windows, self.head_dim, self.batch_shape = tuple(windows), head_dim, tuple(batch_shape)
        self.spare, self.dtype, self.device = spare, dtype, torch.device(device)
        self.sinks = whole("sinks", sinks, low=0)
        self.key_dim = head_dim if key_dim is None else whole("key_dim", key_dim, low=1)
        self.set_heads = None if set_heads is None else tuple(set_heads)
        self._length = 0
        self._first = [
            tuple(
                torch.empty(*self._batch(m), 0, width, dtype=dtype, device=self.device)
                for width in (self.key_dim, head_dim)
            )
            for m in range(len(self.windows))
        ]
        self._sets = [(_Buffer(keys), _Buffer(values)) for keys, values in self._first]
        self._padding: Tensor | None = None
        self._first_padding: Tensor | None = None
        self.guard = ThreadGuard("cache")

    def __copy__(self) -> TokenCache:
        """A copy of the cache, in new memory."""
        with self.guard.reading:
            how = {"spare": self.spare, "sinks": self.sinks, "dtype": self.dtype, "device": self.device}
            how |= {"key_dim": self.key_dim, "set_heads": self.set_heads}
            twin = TokenCache(self.windows, self.head_dim, self.batch_shape, **how)  # type: ignore[arg-type]
            twin._length, twin._padding = self._length, self._padding
            twin._first, twin._first_padding = [*self._first], self._first_padding
            twin._sets = [(_Buffer(keys.tokens.clone()), _Buffer(values.tokens.clone())) for keys, values in self._sets]
            return twin

    def _batch(self, m: int) -> tuple[int, ...]:
        """The leading dimensions of the keys and values of a set."""
        return self.batch_shape if self.set_heads is None else (*self.batch_shape[:-1], self.set_heads[m])

    @property
    def tokens(self) -> tuple[int, ...]:
        """The number of tokens that were appended to each set."""
        return (self._length,) * len(self.windows)

    @property
    def held(self) -> tuple[int, ...]:
        """The number of tokens that each set stores."""
        return tuple(keys.tokens.shape[-2] for keys, _ in self._sets)

    @property
    def nbytes(self) -> int:
        """The allocated memory in bytes, including spare capacity."""
        masks = [mask.nbytes for mask in (self._padding, self._first_padding) if mask is not None]
        first = [tokens.nbytes for pair in self._first for tokens in pair]
        return sum(masks) + sum(first) + sum(buffer.nbytes for pair in self._sets for buffer in pair)

    def append(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """Append L tokens: for each set keys and values (*batch_shape, L, head_dim)."""
        self.keep(*self.joined(keys, values))

    def joined(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The stored keys and values followed by new ones. The cache does not change until `keep` is called.

        Args:
            keys: The new keys of each set, (*batch_shape, L, key_dim).
            values: The new values of each set, (*batch_shape, L, head_dim).

        Raises:
            ArgumentError: The number of sets, or the shape, dtype or device of a tensor, differs from the
                cache's.
        """
        for name, given in (("keys", keys), ("values", values)):
            if len(given) != len(self.windows):
                raise ArgumentError(name, expected=f"{len(self.windows)} sets", got=str(len(given)))
            for m, x in enumerate(given):
                self._check(f"{name}[{m}]", x, m, given[0].shape[-2], name == "keys")
        pairs = zip(self._sets, keys, values, strict=True)
        joined = [(held.followed_by(key), beside.followed_by(value)) for (held, beside), key, value in pairs]
        return [key for key, _ in joined], [value for _, value in joined]

    def padded(self, count: int, mask: Tensor | None) -> Tensor | None:
        """The padding mask of the stored tokens, for the set that stores most, followed by `count` new tokens.

        Args:
            count: The number of new tokens.
            mask: (batch, count) or, without a batch, (count,), True for a new token that is padding; None if there is
                no padding.

        Returns:
            The mask of all these tokens, or None if no mask was ever given.
        """
        if mask is None and self._padding is None:
            return None
        batch = self.batch_shape[:-1]
        before, new = self._padding, mask
        if before is None:
            before = torch.zeros(*batch, max(self.held), dtype=torch.bool, device=self.device)
        if new is None:
            new = torch.zeros(*batch, count, dtype=torch.bool, device=self.device)
        return torch.cat([before, new], -1)

    def attended(
        self, keys: list[Tensor], values: list[Tensor], padding: Tensor | None, *, aligned: bool = False
    ) -> tuple[list[Tensor], list[Tensor], dict[str, Any]]:
        """The keys, values and options of the causal call of `tensor_attention` for the new tokens.

        Args:
            keys: The keys that `joined` returned.
            values: The values that `joined` returned.
            padding: The mask that `padded` returned.
            aligned: Whether a token must have the same index in all sets.
        """
        new, windows = keys[0].shape[-2] - self.held[0], self.windows
        seen = None if padding is None else ~padding.unsqueeze(-2)
        sets = []
        for m, (key, value) in enumerate(zip(keys, values, strict=True)):
            mask = None if seen is None else seen[..., seen.shape[-1] - key.shape[-2] :]
            sets.append(self._with_sinks(m, _Tokens(key, value, mask)))
        if new == 1 and not aligned:  # a single query attends to the sinks and to all tokens in its windows
            sets = [
                tokens if window is None or self.sinks + window >= len(tokens) else tokens.ends(self.sinks, window)
                for tokens, window in zip(sets, windows, strict=True)
            ]
            options: dict[str, Any] = {}
        else:  # shorter sets are padded after the sinks, with tokens outside their windows
            length = max(map(len, sets))
            sets = [tokens.widened(self.sinks, length - len(tokens)) for tokens in sets]
            options = {"is_causal": True, "query_offset": length - new}
            options["windows"] = None if all(window is None for window in windows) else windows
        masks = None if seen is None else [tokens.mask for tokens in sets]
        return [tokens.key for tokens in sets], [tokens.value for tokens in sets], options | {"key_masks": masks}

    def _with_sinks(self, m: int, tokens: _Tokens) -> _Tokens:
        """The stored and new tokens of a set, preceded by the sinks that are not among them."""
        count = 0 if self.windows[m] is None else min(self.sinks, self._length - self.held[m])
        if count == 0:
            return tokens
        key, value = (x[..., :count, :] for x in self._first[m])
        mask = None
        if tokens.mask is not None:
            padding = self._first_padding
            none_masked = tokens.mask.new_ones(*tokens.mask.shape[:-1], count)
            mask = none_masked if padding is None else ~padding[..., :count].unsqueeze(-2)
        return _Tokens(key, value, mask).followed_by(tokens)

    def keep(self, keys: Sequence[Tensor], values: Sequence[Tensor], padding: Tensor | None = None) -> None:
        """Store the results of `joined` and `padded`, without the tokens that no later token can attend."""
        new = keys[0].shape[-2] - self.held[0]
        padding = self.padded(new, None) if padding is None else padding
        self._keep_sinks(keys, values, padding, new)
        self._length += new
        for m, ((held, beside), key, value) in enumerate(zip(self._sets, keys, values, strict=True)):
            start = max(key.shape[-2] - self._reach(m), 0)
            held.hold(key, start)
            beside.hold(value, start)
        self._padding = None if padding is None else padding[..., padding.shape[-1] - max(self.held) :]

    def _keep_sinks(self, keys: Sequence[Tensor], values: Sequence[Tensor], padding: Tensor | None, new: int) -> None:
        """Store the new tokens that are attention sinks."""
        count = min(self.sinks - self._length, new)
        if count <= 0:
            return
        for m, window in enumerate(self.windows):
            if window is not None:
                pairs = zip(self._first[m], (keys[m], values[m]), strict=True)
                first_keys, first_values = (
                    torch.cat([first, x[..., self.held[m] : self.held[m] + count, :]], -2) for first, x in pairs
                )
                self._first[m] = first_keys, first_values
        if padding is not None:
            before = self._first_padding
            if before is None:
                before = padding.new_zeros(*padding.shape[:-1], self._length)
            start = padding.shape[-1] - new
            self._first_padding = torch.cat([before, padding[..., start : start + count]], -1)

    def _reach(self, m: int) -> int:
        """The largest number of stored tokens of a set: those that a later token can attend, and `spare` more."""
        window = self.windows[m]
        return self._length if window is None else window - 1 + self.spare

    def trim(self, length: int) -> None:
        """Remove the latest tokens, so that `length` remain, for example after a rejected draft of speculative
        decoding.

        Args:
            length: The number of tokens to keep, from 0 to all.

        Raises:
            ArgumentError: The length is out of range, or tokens in the window of the new last token are no longer
                stored: create the cache with a larger `spare`.
        """
        if not is_whole(length, low=0, high=self._length):
            raise ArgumentError("length", expected=f"an integer from 0 to {self._length}", got=length)
        for m, (window, held) in enumerate(zip(self.windows, self.held, strict=True)):
            needed = 0 if window is None else min(length, window - 1)
            if needed and length - needed < self._length - held:
                least = self._length - held + needed
                expected = f"at least {least}: set {m} with a window of {window} stores only {held} tokens"
                raise ArgumentError("length", expected=expected, got=length)
        for keys, values in self._sets:
            for buffer in (keys, values):
                buffer.drop(min(self._length - length, buffer.tokens.shape[-2]))
        if self._padding is not None:
            self._padding = self._padding[..., : max(self.held)]
        self._first = [(keys[..., :length, :], values[..., :length, :]) for keys, values in self._first]
        self._first_padding = None if self._first_padding is None else self._first_padding[..., :length]
        self._length = length

    def reorder(self, indices: Tensor | Sequence[int]) -> None:
        """Replace sequence i of the batch by the sequence at `indices[i]`, as in a beam search.

        Args:
            indices: Integers from 0 to the batch size - 1, in any order and with repetitions; their number is the new
                batch size.

        Raises:
            ArgumentError: The cache has no batch, or an index is out of range.
        """
        if len(self.batch_shape) < 2:
            raise ArgumentError("indices", expected="a cache with a batch", got="one without: cache(batch_size=None)")
        chosen = batch_indices(indices, self.batch_shape[0], self.device)
        self.batch_shape = (len(chosen), *self.batch_shape[1:])
        self._sets = [
            (_Buffer(keys.tokens.index_select(0, chosen)), _Buffer(values.tokens.index_select(0, chosen)))
            for keys, values in self._sets
        ]
        self._first = [(keys.index_select(0, chosen), values.index_select(0, chosen)) for keys, values in self._first]
        self._padding, self._first_padding = (
            None if mask is None else mask.index_select(0, chosen) for mask in (self._padding, self._first_padding)
        )

    def detach(self) -> None:
        """Detach the stored tokens from the autograd graph, so that gradients reach only tokens appended later."""
        for pair in self._sets:
            for buffer in pair:
                buffer.tokens = buffer.tokens.detach()
        self._first = [(keys.detach(), values.detach()) for keys, values in self._first]

    def state_dict(self) -> dict[str, Tensor]:
        """The stored tokens, their configuration and their padding mask as tensors, for example for safetensors."""
        saved = {"length": torch.tensor(self._length), "configuration": as_bytes(self._configuration())}
        for m, (keys, values) in enumerate(self._sets):
            for name, buffer in (("keys", keys), ("values", values)):
                saved[f"{name}.{m}"] = buffer.tokens.detach().clone(memory_format=torch.contiguous_format)
        for m, window in enumerate(self.windows):
            if self.sinks and window is not None:
                for name, tokens in zip(("first_keys", "first_values"), self._first[m], strict=True):
                    saved[f"{name}.{m}"] = tokens.detach().clone(memory_format=torch.contiguous_format)
        masks = {"padding": self._padding, "first_padding": self._first_padding}
        return saved | {name: mask.clone() for name, mask in masks.items() if mask is not None}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Replace the tokens of this cache by saved ones.

        Args:
            saved: The `state_dict` of a cache that was created with the same arguments; the device may differ.

        Raises:
            ArgumentError: The saved cache had other arguments, which the message names, or the shapes do not match the
                number of tokens. An error leaves this cache unchanged.
        """
        if not isinstance(saved, Mapping):
            raise ArgumentError("saved", expected="a mapping from names to tensors", got=type(saved).__name__)
        if "configuration" in saved:  # compared first: a different configuration explains different shapes
            compare("saved", self._configuration(), from_bytes(saved["configuration"]))
        masks = {"padding", "first_padding"}
        names = ({*self.state_dict()} - masks) | (masks & set(saved))
        if set(saved) != names:
            raise ArgumentError("saved", expected=f"the entries {sorted(names)}", got=f"{sorted(saved)}")
        for name, x in saved.items():
            if not isinstance(x, Tensor):
                raise ArgumentError(f"saved['{name}']", expected="a tensor", got=type(x).__name__)
        length = int(saved["length"]) if saved["length"].numel() == 1 else -1
        if length < 0:
            raise ArgumentError("saved['length']", expected="a count >= 0", got=f"{saved['length'].tolist()}")
        for m, window in enumerate(self.windows):
            most = length if window is None else min(length, window - 1 + self.spare)
            least = length if window is None else min(length, window - 1)
            for name in (f"keys.{m}", f"values.{m}"):
                count = saved[name].shape[-2] if saved[name].dim() > 1 else -1
                if not least <= count <= most or count != saved[f"keys.{m}"].shape[-2]:
                    expected = f"{least} to {most} stored tokens out of {length}"
                    raise ArgumentError(f"saved['{name}']", expected=expected, got=f"shape {tuple(saved[name].shape)}")
                self._check(f"saved['{name}']", saved[name].to(self.device), m, count, name.startswith("keys"))
        first = min(self.sinks, length)
        for name in names:
            if name.startswith(("first_keys", "first_values")):
                m, of_keys = int(name.rpartition(".")[2]), name.startswith("first_keys")
                self._check(f"saved['{name}']", saved[name].to(self.device), m, first, of_keys)
        lengths = {"padding": max(saved[f"keys.{m}"].shape[-2] for m in range(len(self.windows)))}
        lengths["first_padding"] = first
        for name in masks & names:
            shape, mask = (*self.batch_shape[:-1], lengths[name]), saved[name]
            if mask.shape != shape or mask.dtype != torch.bool:
                got = f"{mask.dtype} of shape {tuple(mask.shape)}"
                raise ArgumentError(f"saved['{name}']", expected=f"torch.bool of shape {shape}", got=got)
        self._length = length
        self._padding, self._first_padding = (
            _copy(saved[name], self.device) if name in saved else None for name in ("padding", "first_padding")
        )
        for m in range(len(self.windows)):
            if f"first_keys.{m}" in saved:
                first_keys, first_values = (saved[f"{name}.{m}"] for name in ("first_keys", "first_values"))
                self._first[m] = _copy(first_keys, self.device), _copy(first_values, self.device)
        self._sets = [
            (_Buffer(_copy(saved[f"keys.{m}"], self.device)), _Buffer(_copy(saved[f"values.{m}"], self.device)))
            for m in range(len(self.windows))
        ]

    def _configuration(self) -> dict[str, object]:
        configuration: dict[str, object] = {"windows": list(self.windows), "head_dim": self.head_dim}
        configuration |= {"batch_shape": list(self.batch_shape), "spare": self.spare}
        # Earlier versions did not save the following entries.
        configuration |= {"sinks": self.sinks} if self.sinks else {}
        configuration |= {"key_dim": self.key_dim} if self.key_dim != self.head_dim else {}
        configuration |= {} if self.set_heads is None else {"set_heads": list(self.set_heads)}
        return configuration | {"dtype": str(self.dtype).removeprefix("torch.")}

    def _check(self, name: str, x: Tensor, m: int, length: int, of_keys: bool) -> None:
        """Raise an `ArgumentError` unless x has the shape of `length` keys or values of a set."""
        if not isinstance(x, Tensor):
            raise ArgumentError(name, expected="a tensor", got=type(x).__name__)
        shape = (*self._batch(m), length, self.key_dim if of_keys else self.head_dim)
        if x.shape != shape:
            raise ArgumentError(name, expected=f"shape {shape}", got=f"shape {tuple(x.shape)}")
        if x.dtype != self.dtype or x.device != self.device:
            expected = f"the cache's {self.dtype} on {self.device}"
            raise ArgumentError(name, expected=expected, got=f"{x.dtype} on {x.device}")


DecodingCache = TokenCache | TensorAttentionState
"""A cache for decoding: keys and values, or the states of a layer with a tolerance."""


@dataclass(frozen=True)
class _Tokens:
    """Keys and values (..., length, d) of a set, and a mask (..., 1, length), True for keys that are attended, or
    None."""

    key: Tensor
    value: Tensor
    mask: Tensor | None

    def __len__(self) -> int:
        return self.key.shape[-2]

    def followed_by(self, later: _Tokens) -> _Tokens:
        """The concatenation of these tokens and later ones."""
        pairs = ((self.key, later.key), (self.value, later.value))
        key, value = (torch.cat(pair, -2) for pair in pairs)
        if self.mask is None or later.mask is None:
            return _Tokens(key, value, None)
        return _Tokens(key, value, torch.cat([self.mask, later.mask], -1))

    def part(self, start: int, stop: int) -> _Tokens:
        """The tokens of a range."""
        mask = None if self.mask is None else self.mask[..., start:stop]
        return _Tokens(self.key[..., start:stop, :], self.value[..., start:stop, :], mask)

    def ends(self, first: int, last: int) -> _Tokens:
        """The first and the last tokens, without those between them."""
        end = self.part(len(self) - last, len(self))
        return end if first == 0 else self.part(0, first).followed_by(end)

    def widened(self, place: int, gap: int) -> _Tokens:
        """The tokens with `gap` masked tokens inserted at an index."""
        if gap == 0:
            return self
        before, behind = self.part(0, place), self.part(place, len(self))
        key, value = (pad(x, (0, 0, 0, gap)) for x in (before.key, before.value))
        mask = None if before.mask is None else pad(before.mask, (0, gap))
        return _Tokens(key, value, mask).followed_by(behind)


class _Buffer:
    """A growable buffer of tokens (..., length, d): a view of a larger tensor, which has capacity for more.

    If gradients are recorded, tokens are copied to a new tensor that is never written to, because a graph may need it.
    """

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens
        self._whole: Tensor | None = None
        self._start = 0

    @property
    def nbytes(self) -> int:
        return self.tokens.untyped_storage().nbytes()

    def followed_by(self, new: Tensor) -> Tensor:
        """The tokens followed by the new ones."""
        if torch.is_grad_enabled():
            return torch.cat([self.tokens, new], -2)
        length = self.tokens.shape[-2]
        stop = length + new.shape[-2]
        whole = self._whole
        stale = whole is not None and whole.is_inference() and not torch.is_inference_mode_enabled()
        if whole is None or self._start + stop > whole.shape[-2] or stale:
            whole = new.new_empty(*new.shape[:-2], stop + max(stop // 2, _LEAST_ROOM), new.shape[-1])
            whole[..., :length, :] = self.tokens
            self._whole, self._start, self.tokens = whole, 0, whole[..., :length, :]
        whole[..., self._start + length : self._start + stop, :] = new
        return whole[..., self._start : self._start + stop, :]

    def hold(self, tokens: Tensor, start: int) -> None:
        """Store the result of `followed_by`, from index `start` on."""
        self.tokens, self._start = tokens[..., start:, :], self._start + start
        if self._whole is not None and tokens.untyped_storage().data_ptr() != self._whole.untyped_storage().data_ptr():
            self._whole = None
        elif self._whole is not None and self._whole.shape[-2] > 4 * max(self.tokens.shape[-2], _LEAST_ROOM):
            self.tokens, self._whole = self.tokens.clone(memory_format=torch.contiguous_format), None

    def drop(self, count: int) -> None:
        """Remove the last tokens."""
        self.tokens = self.tokens[..., : self.tokens.shape[-2] - count, :]


def _copy(x: Tensor, device: torch.device) -> Tensor:
    return x.detach().to(device, copy=True)
