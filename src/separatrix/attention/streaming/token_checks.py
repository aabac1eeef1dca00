"""The checks of a state beyond `check_tensor`: the number of sets, the bound on tokens, masks and indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, numbers, truth
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError


def as_sets(name: str, given: Tensor | Sequence[Any], order: int) -> list[Any]:
    """The k - 1 sets of keys, values or masks that were given; a bare tensor at order 2 is one set."""
    sets = [given] if isinstance(given, Tensor) else list(given)
    if len(sets) != order - 1:
        raise ArgumentError(name, expected=f"{order - 1} sets (order {order})", got=str(len(sets)))
    return sets


def seen_tokens(name: str, mask: Tensor | None, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """A mask of tokens expanded to (*batch_shape, length), or all True for None; an `ArgumentError` for an invalid
    mask.
    """
    if mask is None:
        return torch.ones(shape, dtype=torch.bool, device=device)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ArgumentError(name, expected="a bool tensor, True for a token that is added", got=got)
    if mask.device != device:
        raise ArgumentError(name, expected=f"the state's device {device}", got=mask.device)
    sizes = tuple(mask.shape)
    pairs = zip(reversed(sizes), reversed(shape), strict=False)
    fits = 0 < len(sizes) <= len(shape) and sizes[-1] == shape[-1] and all(size in (1, whole) for size, whole in pairs)
    if not fits:
        raise ArgumentError(name, expected=f"a shape that broadcasts to {shape}", got=f"shape {sizes}")
    return mask.expand(shape)


def check_bound(name: str, x: Tensor, bound: float, most: float, norm: str, order: int) -> None:
    """Raise an `ArgumentError` that names the first token that exceeds the bound or has a NaN, if there is one.

    `most` is the largest allowed entry or l_k norm, k = `order`, of a token (see `norm` of `TensorAttentionState`): the
    bound, which the message names, plus the rounding of its dtype.
    """
    if not x.numel():
        return
    wide = x.detach().to(torch.float64)
    sizes = wide.abs().amax(-1) if norm == "entries" else torch.linalg.vector_norm(wide, order, dim=-1)
    worst = number(sizes.max())
    if not worst <= most:  # the comparison is False for NaN
        what = "entries" if norm == "entries" else f"l_{order} norms"
        token = int(number((~(sizes <= most)).reshape(-1, sizes.shape[-1]).any(0).nonzero()[0]))
        raise ArgumentError(
            name,
            expected=f"{what} of at most {bound:g}, for which the state is planned",
            got=f"{worst:g} at token {token}",
            hypothesis="the bounded entries of Definition 1.2 (Alman and Song)",
        )


def check_finite(name: str, x: Tensor) -> None:
    """Raise an `ArgumentError` if an entry is NaN or infinite."""
    if not truth(torch.isfinite(x).all()):
        raise ArgumentError(name, expected="finite entries", got="NaN or infinity")


def batch_indices(indices: Tensor | Sequence[int], size: int, device: torch.device) -> Tensor:
    """The indices of sequences in a batch as a tensor; an `ArgumentError` if an index is out of range.

    >>> batch_indices([2, 0, 0], 3, torch.device("cpu"))
    tensor([2, 0, 0])
    """
    expected = f"integers from 0 to {size - 1}, in one dimension"
    if isinstance(indices, Tensor):
        if indices.dim() != 1 or indices.dtype not in (torch.int64, torch.int32):
            raise ArgumentError("indices", expected=expected, got=f"shape {tuple(indices.shape)}, {indices.dtype}")
        chosen = indices.to(device, torch.int64)
    elif isinstance(indices, (list, tuple)) and all(is_whole(i) for i in indices):
        chosen = torch.tensor(indices, dtype=torch.int64, device=device)
    else:
        raise ArgumentError("indices", expected=expected, got=indices)
    if len(chosen) and not 0 <= number(chosen.min()) <= number(chosen.max()) < size:
        raise ArgumentError("indices", expected=expected, got=numbers(chosen))
    return chosen
