"""Checks of the arguments of the constructor and of a call of a layer, and of the cache with which it decodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from separatrix.attention.arguments import is_dense, layout
from separatrix.attention.forms.rotary_positions import FORMS
from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.attention.visible_keys import Places
from separatrix.checks import finite, is_number, one_of, positive, whole
from separatrix.errors import ArgumentError
from separatrix.nn.cache import TokenCache, Window


def key_masks(padding: Sequence[Tensor | None]) -> list[Tensor | None] | None:
    """The `key_masks` of `tensor_attention`, True for the keys that are attended, from the padding of each set."""
    if all(mask is None for mask in padding):
        return None
    return [None if mask is None else ~mask.unsqueeze(-2) for mask in padding]


def refuse(name: str, given: object, only: object, reason: str) -> None:
    """Raise an `ArgumentError` if an argument of `nn.MultiheadAttention` has another value than the one supported."""
    if isinstance(given, Tensor) or given != only:
        got = _shape(given) if isinstance(given, Tensor) else given
        raise ArgumentError(name, expected=f"{only!r} ({reason})", got=got)


def check_scoring(
    scale: float | None,
    rotary: float | None,
    windows: object,
    bound: float | None,
    tolerance: float | None,
) -> None:
    """Raise an `ArgumentError` unless the arguments that decide the scores of a layer are valid together."""
    if scale is not None and not (is_number(scale) and math.isfinite(scale)):
        raise ArgumentError("scale", expected="None or a finite number", got=scale)
    if rotary is not None:
        positive("rotary", rotary)
    if bound is None:
        if tolerance is not None:
            raise ArgumentError("tolerance", expected="None for a layer without a bound", got=tolerance)
        return
    if scale is not None:
        raise ArgumentError("scale", expected="None for a layer with a bound, which learns it", got=scale)
    if rotary is not None:
        reason = "None for a layer with a bound: rotating a vector changes the norm that keeps the bound"
        raise ArgumentError("rotary", expected=reason, got=rotary)
    if tolerance is not None and windows is not None:
        raise ArgumentError("windows", expected="None for a layer with a tolerance", got=windows)


def check_form(
    form: str,
    alibi: tuple[float, ...] | None,
    key_bias: int,
    orders: Sequence[int],
    head_dim: int,
    scale: float | None,
    rotary: float | None,
    tolerance: float | None,
) -> None:
    """Raise an `ArgumentError` unless a layer can have the score form and the biases."""
    one_of("form", form, FORMS)
    for order in sorted(set(orders)):
        if form == "determinant" and head_dim % order:
            expected = (
                f"another form than 'determinant' for head_dim = {head_dim}, which is no multiple of {order}, the order"
            )
            raise ArgumentError("form", expected=expected, got=repr(form))
    if rotary is not None and form != "determinant" and head_dim % 2:
        raise ArgumentError("rotary", expected=f"None for an odd head_dim, {head_dim}", got=rotary)
    if alibi is not None and scale == 0:
        raise ArgumentError("alibi", expected="None for scale = 0", got=alibi)
    if key_bias and scale == 0:
        raise ArgumentError("key_bias", expected="0 for scale = 0", got=key_bias)
    if alibi is not None and tolerance is not None:
        expected = (
            "None for a layer with a tolerance: the bias grows with the distance, so that no bound holds for the "
            "scores, from which near-linear attention is planned"
        )
        raise ArgumentError("alibi", expected=expected, got=str(alibi))


def check_orders(orders: Sequence[int], bound: float | None) -> None:
    """Raise an `ArgumentError` if heads of different orders are to have a bound."""
    if bound is not None and len(set(orders)) > 1:
        expected = "one order for all heads of a layer with a bound, which has one plan and one state of one order"
        raise ArgumentError("order", expected=expected, got=list(orders))


def check_norms(qk_norm: bool, learned_scale: bool, form: str, bound: float | None) -> None:
    """Raise an `ArgumentError` unless `qk_norm` and `learned_scale` are compatible with the other arguments."""
    if bound is not None and qk_norm:
        raise ArgumentError(
            "qk_norm", expected="False for a layer with a bound, which normalises queries and keys", got=True
        )
    if bound is not None and learned_scale:
        raise ArgumentError("learned_scale", expected="False for a layer with a bound, which learns it", got=True)
    if form == "pairwise" and learned_scale:
        expected = "False for form='pairwise': a factor of the queries does not change its products of two keys"
        raise ArgumentError("learned_scale", expected=expected, got=True)


def check_places(
    places: Places, windows: Sequence[Window] | None, alibi: tuple[float, ...] | None, tolerance: float | None
) -> None:
    """Raise an `ArgumentError` unless windows, sinks and `distinct` are compatible with the other arguments."""
    places.check(False, windows)
    for name in ("lookahead", "sinks"):
        if alibi is not None and getattr(places, name):
            expected = "0 for a layer with alibi: its bias is for the nearest earlier keys"
            raise ArgumentError(name, expected=expected, got=getattr(places, name))
    if tolerance is not None and places.distinct:
        raise ArgumentError("distinct", expected="False for a layer with a tolerance", got=True)


def check_decoding(prefix: int, length: int, cache: TokenCache | TensorAttentionState) -> None:
    """Raise an `ArgumentError` unless the first `prefix` tokens can be attended in both directions by this decoding."""
    if whole("prefix", prefix, low=0) == 0:
        return
    if isinstance(cache, TensorAttentionState):
        raise ArgumentError("prefix", expected="0 for a layer with a tolerance", got=prefix)
    if cache.tokens[0] > 0 or prefix > length:
        expected = "0, or at most the number of the first tokens appended to an empty cache"
        raise ArgumentError("prefix", expected=expected, got=f"{prefix} for {length} after {cache.tokens[0]}")


def alibi_of_sets(alibi: bool | Sequence[float] | None, order: int) -> tuple[float, ...] | None:
    """The factors of the slopes of the order - 1 key sets, from True or a list; None for no bias."""
    if alibi is None or alibi is False:
        return None
    if alibi is True:
        return (1.0,) * (order - 1)
    if not isinstance(alibi, (list, tuple)) or len(alibi) != order - 1:
        expected = f"None, True, or {order - 1} numbers, one for each key set"
        raise ArgumentError("alibi", expected=expected, got=alibi)
    return tuple(finite(f"alibi[{m}]", factor) for m, factor in enumerate(alibi))


def check_distances(alibi: tuple[float, ...] | None, is_causal: bool, windows: Sequence[Window] | None) -> None:
    """Raise an `ArgumentError` if a layer with `alibi` is called such that a query attends later keys."""
    if alibi is not None and not is_causal and (windows is None or None in windows):
        expected = "True for a layer with alibi, unless every key set has a window: the bias is for earlier keys"
        raise ArgumentError("is_causal", expected=expected, got=is_causal)


def windows_of_sets(windows: int | Sequence[Window] | None, order: int) -> tuple[Window, ...] | None:
    """The windows of the order - 1 key sets, from one number for all sets or a list; None if no set has a window."""
    if windows is None:
        return None
    if isinstance(windows, (list, tuple)):
        if len(windows) != order - 1:
            raise ArgumentError("windows", expected=f"{order - 1} entries, one for each key set", got=windows)
        return tuple(None if w is None else whole(f"windows[{m}]", w, low=1) for m, w in enumerate(windows))
    return (whole("windows", windows, low=1),) * (order - 1)


def check_input(
    name: str,
    x: Tensor,
    width: int,
    dtype: torch.dtype,
    device: torch.device,
    batch_first: bool,
    stands_for: str | None = None,
) -> None:
    """Raise an `ArgumentError` unless an input is a dense tensor of the width, dtype and device of a layer.

    Under autocast the input may have another dtype. `stands_for` is the argument that x was taken from because `name`
    was None.
    """
    if not isinstance(x, Tensor):
        raise ArgumentError(name, expected="a tensor", got=type(x).__name__)
    if not is_dense(x):
        raise ArgumentError(name, expected="a dense tensor", got=layout(x))
    got = _shape(x) if stands_for is None else f"None, which stands for {stands_for} of {_shape(x)}"
    if x.dim() < 2:
        form = "(..., length, width)" if batch_first else "(length, ..., width)"
        raise ArgumentError(name, expected=f"shape {form}", got=got)
    if x.shape[-1] != width:
        raise ArgumentError(name, expected=f"a last dimension of {width}", got=got)
    if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
        raise ArgumentError(name, expected=f"the layer's type {dtype}", got=str(x.dtype))
    if x.device != device:
        raise ArgumentError(name, expected=f"the layer's device {device}", got=str(x.device))


def sources_of_sets(
    key: Tensor | Sequence[Tensor],
    value: Tensor | Sequence[Tensor],
    key_padding_mask: Tensor | Sequence[Tensor | None] | None,
    order: int,
) -> list[tuple[str, Tensor, Tensor, Tensor | None]]:
    """The name, key input, value input and padding of each key set, or one entry for all sets if no argument is a list.

    Returns:
        One entry, with the name "", or order - 1 of them, with the names "[0]", "[1]", ...
    """
    arguments = {"key": key, "value": value, "key_padding_mask": key_padding_mask}
    lists = {name: given for name, given in arguments.items() if isinstance(given, (list, tuple))}
    for name, given in lists.items():
        if len(given) != order - 1:
            expected = f"one tensor, or {order - 1} of them, one for each key set"
            raise ArgumentError(name, expected=expected, got=f"{len(given)} entries")
    if not lists:
        return [("", key, value, key_padding_mask)]  # type: ignore[list-item]
    columns = [lists.get(name, [given] * (order - 1)) for name, given in arguments.items()]
    return [(f"[{m}]", *entries) for m, entries in enumerate(zip(*columns, strict=True))]


def check_jagged(query: Tensor, batch_first: bool) -> None:
    """Raise an `ArgumentError` unless a jagged nested tensor is (batch, lengths, width), without holes."""
    if query.dim() != 3 or not batch_first:
        got = f"{query.dim()} dimensions, batch_first={batch_first}"
        raise ArgumentError("query", expected="a jagged tensor (batch, lengths, width), and batch_first=True", got=got)
    if query.lengths() is not None:  # type: ignore[attr-defined]  # nested tensors have it
        raise ArgumentError(
            "query", expected="a jagged tensor without holes (query.contiguous())", got="one with lengths"
        )


def check_together(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    place: str = "",
    *,
    square: bool = False,
) -> None:
    """Raise an `ArgumentError` unless the inputs of a call, with the batch first, and their mask fit each other.

    `place` is the index of the set in a list, such as "[0]", which error messages append to the names of the arguments.
    If `square`, there must be as many queries as keys, as for a causal call without an offset.
    """
    if key.shape[:-2] != query.shape[:-2]:
        raise ArgumentError(f"key{place}", expected=f"the query's batch {tuple(query.shape[:-2])}", got=_shape(key))
    if value.shape[:-1] != key.shape[:-1]:
        raise ArgumentError(
            f"value{place}", expected=f"the key's batch and length {tuple(key.shape[:-1])}", got=_shape(value)
        )
    if square and key.shape[-2] != query.shape[-2]:
        expected = f"the query's length {query.shape[-2]} (is_causal without a query_offset)"
        raise ArgumentError(f"key{place}", expected=expected, got=f"length {key.shape[-2]}")
    if key_padding_mask is None:
        return
    if not isinstance(key_padding_mask, Tensor) or key_padding_mask.dtype != torch.bool:
        got = key_padding_mask.dtype if isinstance(key_padding_mask, Tensor) else type(key_padding_mask).__name__
        raise ArgumentError(
            f"key_padding_mask{place}", expected="a bool tensor, True where a key is ignored", got=str(got)
        )
    if key_padding_mask.shape != key.shape[:-1]:
        expected = f"the key's batch and length {tuple(key.shape[:-1])}"
        raise ArgumentError(f"key_padding_mask{place}", expected=expected, got=_shape(key_padding_mask))
    if key_padding_mask.device != key.device:
        expected = f"the layer's device {key.device}"
        raise ArgumentError(f"key_padding_mask{place}", expected=expected, got=str(key_padding_mask.device))


def check_cache(cache: object, kind: type, attributes: Mapping[str, object], batch_shape: tuple[int, ...]) -> None:
    """Raise an `ArgumentError` unless a cache belongs to the layer and matches the batch of its input.

    The caches of a layer are of one class and have common attributes; `batch_shape` has the batch of the input, if
    there is one, and the heads of keys on this rank.
    """
    expected = f"the result of layer.cache({'batch_size' if len(batch_shape) == 2 else ''})"
    if not isinstance(cache, (TokenCache, TensorAttentionState)):
        raise ArgumentError("cache", expected=expected, got=type(cache).__name__)
    for name, value in {"type": kind.__name__, **attributes}.items():
        got = type(cache).__name__ if name == "type" else getattr(cache, name)
        if got != value:
            raise ArgumentError("cache", expected=f"{expected}: {name} = {value}", got=f"{name} = {got}")
    shape = cache.batch_shape
    if len(shape) != len(batch_shape) or shape[:-1] != batch_shape[:-1]:
        batches = [f"a batch of {sizes[0]}" if len(sizes) == 2 else "no batch" for sizes in (batch_shape, shape)]
        raise ArgumentError("cache", expected=f"{batches[0]}, as x has", got=batches[1])
    if shape != batch_shape:
        heads = [f"{sizes[-1]} heads of keys" for sizes in (batch_shape, shape)]
        raise ArgumentError("cache", expected=f"{heads[0]}, as the layer has on this rank", got=heads[1])


def _shape(x: Tensor) -> str:
    return f"shape {tuple(x.shape)}"
