"""The keys and values of the tokens that a layer has decoded so far, as far back as its windows let it look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from separatrix.attention.streaming.saved_state import as_bytes, compare, from_bytes
from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.attention.streaming.thread_guard import ThreadGuard
from separatrix.attention.streaming.token_checks import batch_indices
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError

Window = int | None
_LEAST_ROOM = 16
"""Tokens that a buffer has room for at the least."""


class TokenCache:
    """The projected keys and values of all tokens so far; of a set with a window w only the last w - 1.

    `nn.TensorAttention.cache` makes it for a layer that attends exactly, and `nn.TensorAttention.decode` fills it.
    Where every set has a window its size does not grow with the tokens. A thread that decodes with a cache must be
    alone: `decode` refuses a cache that another thread is using.

    Args:
        windows: For each key set None, or its window; there are as many sets as entries.
        head_dim: The dimension of keys and values.
        batch_shape: The leading dimensions of every key and value: the batch, if there is one, and the heads of keys.
        spare: How many tokens more than a window needs are held: `trim` can take away so many.
        dtype: The type of keys and values.
        device: Where they are.

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
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if not is_whole(spare, low=0):
            raise ArgumentError("spare", expected="an integer >= 0", got=spare)
        self.windows, self.head_dim, self.batch_shape = tuple(windows), head_dim, tuple(batch_shape)
        self.spare, self.dtype, self.device = spare, dtype, torch.device(device)
        self._length = 0
        empty = torch.empty(*self.batch_shape, 0, head_dim, dtype=dtype, device=self.device)
        self._sets = [(_Buffer(empty), _Buffer(empty)) for _ in self.windows]
        self._padding: Tensor | None = None
        self.guard = ThreadGuard("cache")

    def __copy__(self) -> TokenCache:
        """A cache of the same tokens, in memory of its own."""
        with self.guard.reading:
            twin = TokenCache(
                self.windows, self.head_dim, self.batch_shape, spare=self.spare, dtype=self.dtype, device=self.device
            )
            twin._length, twin._padding = self._length, self._padding
            twin._sets = [(_Buffer(keys.tokens.clone()), _Buffer(values.tokens.clone())) for keys, values in self._sets]
            return twin

    @property
    def tokens(self) -> tuple[int, ...]:
        """How many tokens each set has seen."""
        return (self._length,) * len(self.windows)

    @property
    def held(self) -> tuple[int, ...]:
        """How many tokens of each set are held."""
        return tuple(keys.tokens.shape[-2] for keys, _ in self._sets)

    @property
    def nbytes(self) -> int:
        """Bytes of the memory that is taken, with the room for tokens to come."""
        padding = 0 if self._padding is None else self._padding.nbytes
        return padding + sum(buffer.nbytes for pair in self._sets for buffer in pair)

    def append(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """Add L tokens: for each set keys and values (*batch_shape, L, head_dim)."""
        self.keep(*self.joined(keys, values))

    def joined(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The keys and values that are held with new ones behind them; what is held stays as it is until `keep`.

        Args:
            keys: The new keys of each set, (*batch_shape, L, head_dim).
            values: The new values of each set, (*batch_shape, L, head_dim).

        Raises:
            ArgumentError: There are not as many sets as the cache has, or a tensor is of another shape, type or device.
        """
        for name, given in (("keys", keys), ("values", values)):
            if len(given) != len(self.windows):
                raise ArgumentError(name, expected=f"{len(self.windows)} sets", got=str(len(given)))
            for m, x in enumerate(given):
                self._check(f"{name}[{m}]", x, given[0].shape[-2])
        pairs = zip(self._sets, keys, values, strict=True)
        found = [(held.followed_by(key), beside.followed_by(value)) for (held, beside), key, value in pairs]
        return [key for key, _ in found], [value for _, value in found]

    def padded(self, count: int, mask: Tensor | None) -> Tensor | None:
        """Which tokens are padding: those of the set that holds most, and `count` new ones behind them.

        Args:
            count: How many tokens are new.
            mask: (batch, count) or, without a batch, (count,), True for a new token that is padding; None if none is.

        Returns:
            The mask of all, or None if there never was a mask.
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
        self, keys: list[Tensor], values: list[Tensor], padding: Tensor | None
    ) -> tuple[list[Tensor], list[Tensor], dict[str, Any]]:
        """The keys, the values and the options with which `tensor_attention` attends the new tokens causally.

        Args:
            keys: The keys that `joined` returned.
            values: The values that `joined` returned.
            padding: The mask that `padded` returned.
        """
        held, windows = self.held, self.windows
        seen = None if padding is None else ~padding.unsqueeze(-2)
        if keys[0].shape[-2] - held[0] == 1:  # a single query attends all tokens in its windows
            keys, values = (
                [x if w is None else x[..., -w:, :] for x, w in zip(sets, windows, strict=True)]
                for sets in (keys, values)
            )
            masks = None if seen is None else [seen[..., seen.shape[-1] - key.shape[-2] :] for key in keys]
            return keys, values, {"key_masks": masks}
        # Shorter sets are padded in front, with tokens that are outside of their windows.
        offset = max(held)
        keys, values = (
            [pad(x, (0, 0, offset - count, 0)) if count < offset else x for x, count in zip(sets, held, strict=True)]
            for sets in (keys, values)
        )
        options: dict[str, Any] = {"is_causal": True, "query_offset": offset}
        options["windows"] = None if all(window is None for window in windows) else windows
        return keys, values, options | {"key_masks": None if seen is None else [seen] * len(keys)}

    def keep(self, keys: Sequence[Tensor], values: Sequence[Tensor], padding: Tensor | None = None) -> None:
        """Hold what `joined` and `padded` gave, as far as later tokens can attend it."""
        new = keys[0].shape[-2] - self.held[0]
        padding = self.padded(new, None) if padding is None else padding
        self._length += new
        for m, ((held, beside), key, value) in enumerate(zip(self._sets, keys, values, strict=True)):
            start = max(key.shape[-2] - self._reach(m), 0)
            held.hold(key, start)
            beside.hold(value, start)
        self._padding = None if padding is None else padding[..., padding.shape[-1] - max(self.held) :]

    def _reach(self, m: int) -> int:
        """How many tokens of a set are held at the most: all that a later one can attend, and those to spare."""
        window = self.windows[m]
        return self._length if window is None else window - 1 + self.spare

    def trim(self, length: int) -> None:
        """Forget the latest tokens, so that `length` are left: what was decoded in vain, a guess that was wrong.

        Args:
            length: How many tokens are left, from 0 to all.

        Raises:
            ArgumentError: The length is none of these, or tokens that a window would reach from there are no longer
                held: a cache made with `spare` holds so many more of them.
        """
        if not is_whole(length, low=0, high=self._length):
            raise ArgumentError("length", expected=f"an integer from 0 to {self._length}", got=length)
        for m, (window, held) in enumerate(zip(self.windows, self.held, strict=True)):
            needed = 0 if window is None else min(length, window - 1)
            if needed and length - needed < self._length - held:
                least = self._length - held + needed
                expected = f"{least} or more: of set {m}, for its window of {window}, {held} tokens are held"
                raise ArgumentError("length", expected=expected, got=length)
        for keys, values in self._sets:
            for buffer in (keys, values):
                buffer.drop(min(self._length - length, buffer.tokens.shape[-2]))
        if self._padding is not None:
            self._padding = self._padding[..., : max(self.held)]
        self._length = length

    def reorder(self, indices: Tensor | Sequence[int]) -> None:
        """Make the sequence at `indices[i]` of the batch the one at i, as a beam search does.

        Args:
            indices: Whole numbers from 0 to the batch's size - 1, repeated or left out at will; as many as there are
                sequences afterwards.

        Raises:
            ArgumentError: The cache has no batch, or an index is none of it.
        """
        if len(self.batch_shape) < 2:
            raise ArgumentError("indices", expected="a cache with a batch", got="one without: cache(batch_size=None)")
        chosen = batch_indices(indices, self.batch_shape[0], self.device)
        self.batch_shape = (len(chosen), *self.batch_shape[1:])
        self._sets = [
            (_Buffer(keys.tokens.index_select(0, chosen)), _Buffer(values.tokens.index_select(0, chosen)))
            for keys, values in self._sets
        ]
        self._padding = None if self._padding is None else self._padding.index_select(0, chosen)

    def detach(self) -> None:
        """Forget how the tokens came to be: gradients go no further back than to what is appended later."""
        for pair in self._sets:
            for buffer in pair:
                buffer.tokens = buffer.tokens.detach()

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors to save, with safetensors for one: all tokens held, what they are, and which of them are padding."""
        saved = {"length": torch.tensor(self._length), "configuration": as_bytes(self._configuration())}
        for m, (keys, values) in enumerate(self._sets):
            for name, buffer in (("keys", keys), ("values", values)):
                saved[f"{name}.{m}"] = buffer.tokens.detach().clone(memory_format=torch.contiguous_format)
        return saved if self._padding is None else {**saved, "padding": self._padding.clone()}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Take the place of this cache's tokens.

        Args:
            saved: What `state_dict` gave, of a cache made with the same arguments; the device may be another.

        Raises:
            ArgumentError: The cache was made with other arguments, which are named, or the tensors cannot be those of
                so many tokens. This cache is then left as it was.
        """
        if not isinstance(saved, Mapping):
            raise ArgumentError("saved", expected="a mapping from names to tensors", got=type(saved).__name__)
        if "configuration" in saved:  # first: what differs in it explains the rest
            compare("saved", self._configuration(), from_bytes(saved["configuration"]))
        names = {*self.state_dict(), "padding"} if "padding" in saved else {*self.state_dict()} - {"padding"}
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
                    expected = f"{least} to {most} tokens, of the {length} so far"
                    raise ArgumentError(f"saved['{name}']", expected=expected, got=f"shape {tuple(saved[name].shape)}")
                self._check(f"saved['{name}']", saved[name].to(self.device), count)
        padding = saved.get("padding")
        if padding is not None:
            shape = (*self.batch_shape[:-1], max(saved[f"keys.{m}"].shape[-2] for m in range(len(self.windows))))
            if padding.shape != shape or padding.dtype != torch.bool:
                got = f"{padding.dtype} of shape {tuple(padding.shape)}"
                raise ArgumentError("saved['padding']", expected=f"torch.bool of shape {shape}", got=got)
        self._length = length
        self._padding = None if padding is None else _copy(padding, self.device)
        self._sets = [
            (_Buffer(_copy(saved[f"keys.{m}"], self.device)), _Buffer(_copy(saved[f"values.{m}"], self.device)))
            for m in range(len(self.windows))
        ]

    def _configuration(self) -> dict[str, object]:
        found: dict[str, object] = {"windows": list(self.windows), "head_dim": self.head_dim}
        found |= {"batch_shape": list(self.batch_shape), "spare": self.spare}
        return found | {"dtype": str(self.dtype).removeprefix("torch.")}

    def _check(self, name: str, x: Tensor, length: int) -> None:
        if not isinstance(x, Tensor):
            raise ArgumentError(name, expected="a tensor", got=type(x).__name__)
        shape = (*self.batch_shape, length, self.head_dim)
        if x.shape != shape:
            raise ArgumentError(name, expected=f"shape {shape}", got=f"shape {tuple(x.shape)}")
        if x.dtype != self.dtype or x.device != self.device:
            expected = f"the cache's {self.dtype} on {self.device}"
            raise ArgumentError(name, expected=expected, got=f"{x.dtype} on {x.device}")


DecodingCache = TokenCache | TensorAttentionState
"""What a layer decodes with: keys and values, or the sums of a layer with a tolerance."""


class _Buffer:
    """Tokens (..., length, d) that others follow: a part of a larger tensor, where there is room behind them.

    Where gradients are recorded tokens are copied to a tensor of their own, which a graph may need, and which is never
    written to.
    """

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens
        self._whole: Tensor | None = None
        self._start = 0

    @property
    def nbytes(self) -> int:
        return self.tokens.untyped_storage().nbytes()

    def followed_by(self, new: Tensor) -> Tensor:
        """The tokens and the new ones behind them."""
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
        """Hold what `followed_by` gave, from `start` on."""
        self.tokens, self._start = tokens[..., start:, :], self._start + start
        if self._whole is not None and tokens.untyped_storage().data_ptr() != self._whole.untyped_storage().data_ptr():
            self._whole = None
        elif self._whole is not None and self._whole.shape[-2] > 4 * max(self.tokens.shape[-2], _LEAST_ROOM):
            self.tokens, self._whole = self.tokens.clone(memory_format=torch.contiguous_format), None

    def drop(self, count: int) -> None:
        """Forget the last tokens."""
        self.tokens = self.tokens[..., : self.tokens.shape[-2] - count, :]


def _copy(x: Tensor, device: torch.device) -> Tensor:
    return x.detach().to(device, copy=True)
