"""Our order-2 attention under a name that the models of `transformers` know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from separatrix.attention.call import Call, check_call
from separatrix.attention.certified import Certified, certify_call, plan_call
from separatrix.attention.operator import tensor_attention
from separatrix.attention.planning.forecast import Analysis
from separatrix.attention.planning.plan import check_tolerance, recipes
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.hf.masks import Pattern, make_mask, read_mask

Answer = tuple[Tensor, None]

PREFERENCES = ("cheapest", "near-linear")
REFUSED = ("softcap", "position_bias", "s_aux", "head_mask", "cache")
"""What an attention function of `transformers` may be asked for and ours cannot do; None is not asking."""


@dataclass(frozen=True)
class Layer:
    """What a layer asks for: query (batch, heads, L_q, d), key and value of as many heads or fewer."""

    query: Tensor
    key: Tensor
    value: Tensor
    pattern: Pattern
    scale: float

    @property
    def groups(self) -> int:
        """How many query heads share a key head."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of our operators beside the tensors, masks apart."""
        causal = {"is_causal": True, "query_offset": self.pattern.offset} if self.pattern.offset is not None else {}
        return {"scale": self.scale, "windows": self.pattern.window, **causal}

    def call(self, h: int) -> Call:
        """One head, with tensors (batch, length, width)."""
        shared, seen = h // self.groups, self.pattern.seen
        mask = None if seen is None else seen[:, h if seen.shape[1] > 1 else 0]
        return check_call(self.query[:, h], self.key[:, shared], self.value[:, shared], key_masks=mask, **self.options)


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
    """The arguments that `transformers` calls an attention function with; what we cannot do is an error."""
    if dropout:
        raise ArgumentError("dropout", expected="0 (the weights are never held; model.eval() does it)", got=dropout)
    for name in REFUSED:
        if others.get(name) is not None:
            raise ArgumentError(name, expected="None for attention by Separatrix", got=type(others[name]).__name__)
    if others.get("output_attentions"):
        raise ArgumentError("output_attentions", expected="False (the weights are never held)", got=True)
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    queries, keys = query.shape[2], key.shape[2]
    if attention_mask is not None:
        pattern = read_mask(attention_mask, queries, keys)
    else:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        # Without a mask one query sees all keys, and more see the first: that is what `sdpa` takes the flag to mean.
        pattern = Pattern(offset=0) if causal and queries > 1 else Pattern()
    if pattern.offset is not None and keys > queries + pattern.offset:  # a static cache has room for what comes
        keys = queries + pattern.offset
        pattern = replace(pattern, seen=None if pattern.seen is None else pattern.seen[..., :keys])
    return Layer(query, key[:, :, :keys], value[:, :, :keys], pattern, scale)


def exact(*arguments: Any, **options: Any) -> Answer:
    """Exact attention, called as `read_layer` is: (batch, L_q, heads, d_v), and None where weights might be."""
    return laid_out(attend(read_layer(*arguments, **options))), None


def attend(layer: Layer) -> Tensor:
    """Exact attention of all heads at once, (batch, heads, L_q, d_v)."""
    out: Tensor = tensor_attention(
        layer.query,
        layer.key,
        layer.value,
        key_masks=layer.pattern.seen,
        enable_gqa=layer.groups > 1,
        **layer.options,
    )
    return out


def certified(*arguments: Any, tolerance: float, prefer: str, **options: Any) -> Answer:
    """The same within a tolerance, planned and certified head by head, as heads differ in the size of their scores."""
    layer = read_layer(*arguments, **options)
    found = [_certified_head(layer, h, tolerance, prefer) for h in range(layer.query.shape[1])]
    return laid_out(torch.stack(found, 1)), None


def _certified_head(layer: Layer, h: int, tolerance: float, prefer: str) -> Tensor:
    call = layer.call(h)
    if prefer == "cheapest":
        return certify_call(call, tolerance, "auto").output
    found = near_linear(call, tolerance, plan_call(call, tolerance, "auto")[0])
    return (found or certify_call(call, tolerance, "exact")).output


def near_linear(call: Call, tolerance: float, analysis: Analysis) -> Certified | None:
    """Near-linear attention that is certain to keep the tolerance, whatever it costs; None where there is none."""
    if any(window is not None for window in call.positions.windows) or recipes(analysis, tolerance) is None:
        return None
    try:
        return certify_call(call, tolerance, "polynomial")
    except ArgumentError:
        raise
    except SeparatrixError:  # what was forecast to do did not, nor did any degree above it
        return None


def laid_out(out: Tensor) -> Tensor:
    """(batch, heads, L_q, d_v) as `transformers` wants it, (batch, L_q, heads, d_v)."""
    return out.transpose(1, 2).contiguous()


def register(*, tolerance: float | None = None, prefer: str = "cheapest") -> str:
    """Make our attention known to `transformers`; the answer is its name, for `attn_implementation`.

    tolerance: None for exact attention, the name is then "separatrix". Otherwise every entry of every head's output
        is within it of exact attention, or a `SeparatrixError` says why it cannot be; the name tells the tolerance.
    prefer: with a tolerance, "cheapest" takes near-linear attention for a head where it is expected to be faster than
        exact attention; "near-linear" wherever its error can be certified, whatever it costs.

    Scale, padding, causal masks, sliding windows and grouped heads are the model's own. Dropout on the weights,
    soft caps, position biases and the weights themselves are refused: they are never held.

    >>> register()
    'separatrix'
    >>> register(tolerance=1e-3)
    'separatrix-certified-0.001'
    >>> from transformers import BertConfig, BertModel
    >>> tiny = BertConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8, vocab_size=9)
    >>> model = BertModel(tiny).eval()
    >>> tokens = torch.tensor([[1, 2, 3, 4]])
    >>> with torch.no_grad():
    ...     before = model(tokens).last_hidden_state
    ...     model.set_attn_implementation(register())
    ...     torch.allclose(model(tokens).last_hidden_state, before, atol=1e-5)
    True
    """
    if prefer not in PREFERENCES:
        raise ArgumentError("prefer", expected=" or ".join(map(repr, PREFERENCES)), got=repr(prefer))
    function: Callable[..., Answer] = exact
    name = "separatrix"
    if tolerance is not None:
        tolerance = check_tolerance(tolerance)
        name = f"separatrix-{'certified' if prefer == 'cheapest' else prefer}-{tolerance!r}"
        function = partial(certified, tolerance=tolerance, prefer=prefer)
    elif prefer != "cheapest":
        raise ArgumentError("prefer", expected="'cheapest' without a tolerance", got=repr(prefer))
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, make_mask)
    return name
