"""Order-2 attention of this library as an attention function that the models of `transformers` can call by a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from separatrix.attention.arguments import CallOptions
from separatrix.attention.bounds import check_readable
from separatrix.attention.call import Call, check_call
from separatrix.attention.certified import Certified, certify_call
from separatrix.attention.near_linear.analysis import Analysis, analyse
from separatrix.attention.near_linear.forecast import Forecast
from separatrix.attention.near_linear.planner import find_polynomial
from separatrix.attention.operator import tensor_attention
from separatrix.checks import one_of, positive
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.hf.masks import Pattern, make_mask, read_mask

Answer = tuple[Tensor, None]

PREFERENCES = ("cheapest", "near-linear")
REFUSED = ("softcap", "position_bias", "s_aux", "head_mask", "cache")
"""Arguments of attention functions of `transformers` that are not supported here unless they are None."""


@dataclass(frozen=True)
class Layer:
    """The inputs of the attention of a layer.

    Attributes:
        query: the queries, of shape (batch, heads, L_q, d).
        key: the keys, of shape (batch, key heads, L_k, d); the number of heads is a multiple of that of key heads.
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
    **others: Any,
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
        **others: further arguments; those in `REFUSED` must be None, and the rest is ignored.

    Raises:
        ArgumentError: if an argument asks for something that is not supported.
    """
    if dropout:
        raise ArgumentError("dropout", expected="0 (the weights are never stored; model.eval() does it)", got=dropout)
    for name in REFUSED:
        if others.get(name) is not None:
            raise ArgumentError(name, expected="None for attention by Separatrix", got=type(others[name]).__name__)
    if others.get("output_attentions"):
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
        forecast, recipe = find_polynomial(forecast, tolerance)
    analysis = forecast.analysis
    if recipe is None:
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
            than exact attention, and "near-linear" uses it wherever its error can be certified, whatever it costs.

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
