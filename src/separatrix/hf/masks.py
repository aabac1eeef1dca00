"""Which keys a query may attend: the mask that `transformers` makes, read back as the pattern it was made from.

`transformers` hands an attention function one bool for each query and key. Near-linear attention must not look at
that many numbers for each head, and needs to know why a key is hidden, so the mask is taken apart into

    mask[i, j]  =  seen[j]  and  j <= i + offset  and  j > i + offset - window,

padding, causality and a sliding window, each where there is one. What was found is put together again and compared:
a mask of any other form (packed sequences, blocks that see each other) is refused, never approximated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import bidirectional_mask_function, prepare_padding_mask, sdpa_mask

from separatrix.errors import ArgumentError


@dataclass(frozen=True)
class Pattern:
    """`seen` (batch, heads, L_k), either of the first two perhaps 1, or None for all keys; no offset: not causal."""

    seen: Tensor | None = None
    offset: int | None = None
    window: int | None = None

    def allowed(self, rows: range, keys: int, device: torch.device) -> Tensor:
        """The mask of some queries, (batch, heads, rows, L_k) or what broadcasts to it.

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


def read_mask(mask: Tensor, queries: int, keys: int) -> Pattern:
    """The pattern of a bool mask (batch, heads, L_q, L_k), where batch, heads and L_q may be 1 for all alike.

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
    number = mask.to(torch.uint8)
    first, last = number.argmax(-2), queries - 1 - number.flip(-2).argmax(-2)
    j = torch.arange(keys, device=mask.device).expand_as(first)
    later, before = seen & (first > 0), seen & (last < queries - 1)
    offset = int((j - first)[later][0]) if later.any() else None
    window = int((last - j)[before][0]) + offset + 1 if offset is not None and before.any() else None
    pattern = Pattern(None if seen.all() else seen, offset, window)
    if not torch.equal(mask, pattern.allowed(range(queries), keys, mask.device).expand_as(mask)):
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
    """What `transformers` calls to make a mask; names and meanings are its own.

    Padding without causality is (batch, 1, 1, L_k): one row for all queries, not one for each. The rest is as for
    its `sdpa`, which leaves a mask out where a flag can say it.
    """
    if mask_function is bidirectional_mask_function and attention_mask is not None:
        whole = prepare_padding_mask(attention_mask, kv_length, kv_offset)
        assert whole is not None
        padding = whole[:, kv_offset : kv_offset + kv_length]
        return None if allow_is_bidirectional_skip and padding.all() else padding[:, None, None]
    made: Tensor | None = sdpa_mask(
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
    return made
