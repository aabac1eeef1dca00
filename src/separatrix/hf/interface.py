"""Order-2 attention of this library as an attention function that the models of `transformers` can call by a name.

`transformers` passes an attention function one bool for each query and key. Near-linear attention must not read
n^2 numbers for each head, and needs to know why a key is hidden, so the mask is decomposed into

    mask[i, j]  =  seen[j]  and  j <= i + offset  and  j > i + offset - window,

that is, into padding, causality and a sliding window, each of which may be absent. The mask of the resulting pattern is
compared with the given mask: a mask of any other form (packed sequences, blocks that attend each other) is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import bidirectional_mask_function, prepare_padding_mask, sdpa_mask

from separatrix.attention.arguments import CallOptions
from separatrix.attention.arithmetic.device_reads import number, truth
from separatrix.attention.bounds import check_readable
from separatrix.attention.call import Call, check_call
from separatrix.attention.certified import Certified, certify_call
from separatrix.attention.near_linear.analysis import Analysis, analyse
from separatrix.attention.near_linear.forecast import Forecast
from separatrix.attention.near_linear.planner import find_polynomial
from separatrix.attention.operator import tensor_attention
from separatrix.checks import one_of, positive
from separatrix.errors import ArgumentError, SeparatrixError


@dataclass(frozen=True)
class Pattern:
    """The pairs of query and key that may attend.

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


Answer = tuple[Tensor, None]

PREFERENCES = ("cheapest", "near-linear")
REFUSED = ("softcap", "position_bias", "s_aux", "head_mask", "cache")
"""Arguments of attention functions of `transformers` that are not supported here unless they are None."""


@dataclass(frozen=True)
class Layer:
    """The inputs of the attention of a layer.

    Attributes:
        query: the queries, of shape (batch, heads, L_q, d).
        key: the keys, of shape (batch, key heads, L_k, d); the number of heads is a multiple of the number of key
            heads.
        value: the values, of shape (batch, key heads, L_k, d_v).
        pattern: which queries may attend which keys.
        scale: the factor of the scores.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    pattern: Pattern
    scale: float

    @property
    def groups(self) -> int:
        """The number of query heads that share one key head."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def options(self) -> CallOptions:
        """The optional arguments of `tensor_attention` other than the masks and the grouping of heads."""
        options: CallOptions = {"scale": self.scale, "windows": self.pattern.window}
        if self.pattern.offset is not None:
            options.update({"is_causal": True, "query_offset": self.pattern.offset})
        return options

    def call(self, h: int) -> Call:
        """The checked call of one head, with tensors of shape (batch, length, width)."""
        shared, seen = h // self.groups, self.pattern.seen
        mask = None if seen is None else seen[:, h if seen.shape[1] > 1 else 0]
        options: CallOptions = {**self.options, "key_masks": mask}
        return check_call(self.query[:, h], self.key[:, shared], self.value[:, shared], **options)


def read_layer(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **further: Any,
) -> Layer:
    """Read the arguments with which `transformers` calls an attention function.

    Args:
        module: the layer's module.
        query: the queries, of shape (batch, heads, L_q, d).
        key: the keys, of shape (batch, key heads, L_k, d).
        value: the values, of shape (batch, key heads, L_k, d_v).
        attention_mask: a bool mask, True where a key may be attended; None if `is_causal` describes the mask.
        dropout: must be 0.
        scaling: the factor of the scores; None stands for 1 / sqrt(d).
        is_causal: whether a call without a mask is causal; None reads `module.is_causal`.
        **further: further arguments; those in `REFUSED` must be None, and the rest is ignored.

    Raises:
        ArgumentError: if an argument asks for something that is not supported.
    """
    if dropout:
        raise ArgumentError("dropout", expected="0 (the weights are never stored; model.eval() does it)", got=dropout)
    for name in REFUSED:
        if further.get(name) is not None:
            raise ArgumentError(name, expected="None for attention by Separatrix", got=type(further[name]).__name__)
    if further.get("output_attentions"):
        raise ArgumentError("output_attentions", expected="False (the weights are never stored)", got=True)
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    queries, keys = query.shape[2], key.shape[2]
    if attention_mask is not None:
        pattern = read_mask(attention_mask, queries, keys)
    else:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        # As in `sdpa`, without a mask a single query attends all keys, and several queries are aligned with the first
        # keys.
        pattern = Pattern(offset=0) if causal and queries > 1 else Pattern()
    if pattern.offset is not None and keys > queries + pattern.offset:  # a static cache has places for later tokens
        keys = queries + pattern.offset
        pattern = replace(pattern, seen=None if pattern.seen is None else pattern.seen[..., :keys])
    return Layer(query, key[:, :, :keys], value[:, :, :keys], pattern, scale)


def exact(*arguments: Any, **options: Any) -> Answer:
    """Exact attention as an attention function of `transformers`, with the arguments of `read_layer`.

    Returns:
        The output, of shape (batch, L_q, heads, d_v), and None in place of the attention weights.
    """
    return laid_out(attend(read_layer(*arguments, **options))), None


def attend(layer: Layer) -> Tensor:
    """Exact attention of all heads of a layer at once, (batch, heads, L_q, d_v)."""
    options: CallOptions = {**layer.options, "key_masks": layer.pattern.seen, "enable_gqa": layer.groups > 1}
    return tensor_attention(layer.query, layer.key, layer.value, **options)


def certified(*arguments: Any, tolerance: float, prefer: str, **options: Any) -> Answer:
    """Certified attention as an attention function of `transformers`, with the arguments of `read_layer`.

    Each head is planned and certified separately, because heads differ in the size of their scores.

    Args:
        *arguments: the arguments of `read_layer`.
        tolerance: the largest error of an entry of the output.
        prefer: "cheapest" or "near-linear", as in `register`.
        **options: further arguments of `read_layer`.

    Returns:
        The output, of shape (batch, L_q, heads, d_v), and None in place of the attention weights.
    """
    layer = read_layer(*arguments, **options)
    heads = [_certified_head(layer, h, tolerance, prefer) for h in range(layer.query.shape[1])]
    return laid_out(torch.stack(heads, 1)), None


def _certified_head(layer: Layer, h: int, tolerance: float, prefer: str) -> Tensor:
    call = layer.call(h)
    if prefer == "cheapest":
        return certify_call(call, tolerance, "auto").output
    return (near_linear(call, tolerance)[1] or certify_call(call, tolerance, "exact")).output


def near_linear(call: Call, tolerance: float) -> tuple[Analysis, Certified | None]:
    """Near-linear attention with a certified error within the tolerance, at any cost; None if there is none.

    The analysis is that of the call in the basis of the polynomial, or in the given basis if no polynomial was found.
    """
    check_readable(call)
    differentiable = call.wants_gradient
    with torch.no_grad():
        forecast = Forecast(analyse(call, differentiable))
        if call.positions.has_window:
            return forecast.analysis, None
        forecast, candidate = find_polynomial(forecast, tolerance)
    analysis = forecast.analysis
    if candidate is None:
        return analysis, None
    try:
        return analysis, certify_call(call, tolerance, "polynomial")
    except ArgumentError:
        raise
    except SeparatrixError:  # the error was larger than the forecast, at every degree that could be tried
        return analysis, None


def laid_out(out: Tensor) -> Tensor:
    """The output (batch, heads, L_q, d_v) in the layout of `transformers`, (batch, L_q, heads, d_v)."""
    return out.transpose(1, 2).contiguous()


def register(*, tolerance: float | None = None, prefer: str = "cheapest") -> str:
    """Register this library's attention with `transformers` and return its name, for `attn_implementation`.

    The scale, padding, causal masks, sliding windows and grouped heads are the model's own. Dropout on the attention
    weights, soft caps, position biases and returning the weights are errors, because the weights are never stored.

    Args:
        tolerance: None for exact attention; the name is then "separatrix". Otherwise every entry of every head's output
            is within the tolerance of exact attention, or a `SeparatrixError` says why that is not possible; the name
            contains the tolerance.
        prefer: with a tolerance, "cheapest" uses near-linear attention for a head where it is expected to be faster
            than exact attention, and "near-linear" uses it wherever its error can be certified, at any cost.

    Example:
        >>> register()
        'separatrix'
        >>> register(tolerance=1e-3)
        'separatrix-certified-0.001'
        >>> from transformers import BertConfig, BertModel
        >>> size = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8}
        >>> model = BertModel(BertConfig(vocab_size=9, **size)).eval()
        >>> tokens = torch.tensor([[1, 2, 3, 4]])
        >>> with torch.no_grad():
        ...     before = model(tokens).last_hidden_state
        ...     model.set_attn_implementation(register())
        ...     torch.allclose(model(tokens).last_hidden_state, before, atol=1e-5)
        True
    """
    one_of("prefer", prefer, PREFERENCES)
    function: Callable[..., Answer] = exact
    name = "separatrix"
    if tolerance is not None:
        tolerance = positive("tolerance", tolerance)
        name = f"separatrix-{'certified' if prefer == 'cheapest' else prefer}-{tolerance!r}"
        function = partial(certified, tolerance=tolerance, prefer=prefer)
    elif prefer != "cheapest":
        raise ArgumentError("prefer", expected="'cheapest' without a tolerance", got=repr(prefer))
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, make_mask)
    return name
