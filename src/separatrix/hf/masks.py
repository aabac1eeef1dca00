"""Which keys a query may attend: the mask that `transformers` makes, and the pattern from which it was made.

`transformers` passes an attention function one bool for each query and key. Near-linear attention must not read that
many numbers for each head, and needs to know why a key is hidden, so the mask is decomposed into

    mask[i, j]  =  seen[j]  and  j <= i + offset  and  j > i + offset - window,

that is, into padding, causality and a sliding window, each of which may be absent. The mask of the resulting pattern is
compared with the given mask: a mask of any other form (packed sequences, blocks that attend each other) is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import bidirectional_mask_function, prepare_padding_mask, sdpa_mask

from separatrix.attention.arithmetic.device_reads import number, truth
from separatrix.errors import ArgumentError


@dataclass(frozen=True)
class Pattern:
    """Which queries may attend which keys.

    Attributes:
        seen: the keys that are not padding, bool, (batch, heads, L_k), where batch or heads may be 1; None for all.
        offset: query i may attend the keys j <= i + offset; None if attention is not causal.
        window: query i may attend only the keys j > i + offset - window; None if there is no window.
    """

    seen: Tensor | None = None
    offset: int | None = None
    window: int | None = None

    def allowed(self, rows: range, keys: int, device: torch.device) -> Tensor:
        """The mask of the queries `rows`, of shape (batch, heads, rows, L_k), where batch or heads may be 1.

        >>> Pattern(offset=0, window=2).allowed(range(3), 3, torch.device("cpu")).int()
        tensor([[[[1, 0, 0],
                  [1, 1, 0],
                  [0, 1, 1]]]], dtype=torch.int32)
        """
        i = torch.arange(rows.start, rows.stop, device=device).unsqueeze(-1)
        j = torch.arange(keys, device=device)
        mask = torch.ones(1, 1, len(rows), keys, dtype=torch.bool, device=device)
        if self.offset is not None:
            mask = mask & (j <= i + self.offset)
            if self.window is not None:
                mask = mask & (j > i + self.offset - self.window)
        return mask if self.seen is None else mask & self.seen.unsqueeze(-2)


def _at_first(x: Tensor, where: Tensor) -> int | None:
    """The entry of x at the first place where `where` is true; None if there is no such place."""
    if not truth(where.any()):
        return None
    return int(number(x.flatten().take(where.flatten().to(torch.uint8).argmax())))


def read_mask(mask: Tensor, queries: int, keys: int) -> Pattern:
    """The pattern of a bool mask.

    Args:
        mask: the mask, of shape (batch, heads, L_q, L_k), where batch, heads and L_q may be 1 if all are alike.
        queries: L_q.
        keys: L_k.

    Raises:
        ArgumentError: if the mask does not consist of padding, causality and one sliding window.

    Example:
        >>> causal = torch.ones(3, 5, dtype=torch.bool).tril(diagonal=2)
        >>> causal[:, 0] = False
        >>> found = read_mask(causal[None, None], 3, 5)
        >>> found.offset, found.window, found.seen.int().tolist()
        (2, None, [[[0, 1, 1, 1, 1]]])
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = str(mask.dtype) if isinstance(mask, Tensor) else type(mask).__name__
        raise ArgumentError("attention_mask", expected="a bool tensor, True where a key may be attended", got=got)
    if mask.dim() != 4 or mask.shape[-2] not in (1, queries) or mask.shape[-1] != keys:
        expected = f"shape (batch, heads, {queries}, {keys})"
        raise ArgumentError("attention_mask", expected=expected, got=f"shape {tuple(mask.shape)}")
    if mask.shape[-2] == 1 or keys == 0:
        return Pattern(mask[..., 0, :] if mask.shape[-2] else None)
    seen = mask.any(-2)
    bits = mask.to(torch.uint8)
    first, last = bits.argmax(-2), queries - 1 - bits.flip(-2).argmax(-2)
    j = torch.arange(keys, device=mask.device).expand_as(first)
    later, before = seen & (first > 0), seen & (last < queries - 1)
    offset = _at_first(j - first, later)
    width = None if offset is None else _at_first(last - j, before)
    window = None if offset is None or width is None else width + offset + 1
    pattern = Pattern(None if truth(seen.all()) else seen, offset, window)
    if not truth((mask == pattern.allowed(range(queries), keys, mask.device)).all()):
        raise ArgumentError(
            "attention_mask",
            expected="padding, causal, or causal with one sliding window",
            got="a mask of another form, such as packed sequences make",
        )
    return pattern


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = bidirectional_mask_function,
    attention_mask: Tensor | None = None,
    allow_is_bidirectional_skip: bool = False,
    **options: Any,
) -> Tensor | None:
    """Make a mask; `transformers` calls this function, and defines the names and meanings of its arguments.

    A mask for padding without causality has the shape (batch, 1, 1, L_k): one row for all queries instead of one for
    each. All other masks are those of `sdpa` in `transformers`, which returns None where `is_causal` is enough.
    """
    if mask_function is bidirectional_mask_function and attention_mask is not None:
        whole = prepare_padding_mask(attention_mask, kv_length, kv_offset)
        assert whole is not None
        padding = whole[:, kv_offset : kv_offset + kv_length]
        return None if allow_is_bidirectional_skip and truth(padding.all()) else padding[:, None, None]
    mask: Tensor | None = sdpa_mask(
        batch_size,
        q_length,
        kv_length,
        q_offset,
        kv_offset,
        mask_function,
        attention_mask,
        allow_is_bidirectional_skip=allow_is_bidirectional_skip,
        **options,
    )
    return mask
