"""Order-k attention with the interface of `torch.nn.MultiheadAttention`, for PyTorch's own transformer layers."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from separatrix.attention.arithmetic.device_reads import number
from separatrix.checks import flag
from separatrix.errors import ArgumentError
from separatrix.nn.call_inputs import trace_as_leaf
from separatrix.nn.tensor_attention import TensorAttention


class MultiheadTensorAttention(nn.Module):
    """`TensorAttention` with the arguments and the return value, a pair, of `torch.nn.MultiheadAttention`.

    It replaces ``self_attn`` and ``multihead_attn`` in `nn.TransformerEncoderLayer` and `nn.TransformerDecoderLayer`,
    and so in encoders, decoders and transformers.

    Args:
        embed_dim: As in `nn.MultiheadAttention`; all arguments up to `dtype` may be positional, in the same order.
        num_heads: As in `nn.MultiheadAttention`.
        dropout: 0. Any other number raises an error: the attention weights are never materialized.
        bias: Whether the projections have biases.
        add_bias_kv: False. True raises an error.
        add_zero_attn: False. True raises an error.
        kdim: The width of the key input, embed_dim by default.
        vdim: The width of the value input, embed_dim by default.
        batch_first: Whether inputs and outputs are (batch, length, width); **False by default**, as in
            `nn.MultiheadAttention`.
        device: The device of the weights.
        dtype: The dtype of the weights.
        options: Arguments of `TensorAttention` that `nn.MultiheadAttention` does not have, such as `order`, `scale`,
            `windows` and `bound`.

    The layer itself is ``attention``, a `TensorAttention`. PyTorch's fused kernel for encoder layers, which would
    compute ordinary attention, is not used.

    Example:
        >>> encoder_layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
        >>> encoder_layer.self_attn = MultiheadTensorAttention(8, 2, batch_first=True, order=3)
        >>> encoder_layer(torch.zeros(4, 5, 8)).shape
        torch.Size([4, 5, 8])
    """

    in_proj_bias: None = None
    """None, so that PyTorch's encoder layers do not use their fused kernel."""
    _qkv_same_embed_dim = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.attention = TensorAttention(
            embed_dim,
            num_heads,
            dropout=dropout,
            bias=bias,
            add_bias_kv=add_bias_kv,
            add_zero_attn=add_zero_attn,
            kdim=kdim,
            vdim=vdim,
            batch_first=batch_first,
            device=device,
            dtype=dtype,
            **options,
        )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, self.attention.head_dim
        self.kdim, self.vdim = self.attention.kdim, self.attention.vdim
        self.dropout, self.batch_first = dropout, batch_first

    @property
    def out_proj(self) -> nn.Linear:
        """The projection of the heads' outputs."""
        return self.attention.out_proj

    @property
    def in_proj_weight(self) -> _Unpacked:
        """Not a tensor: the projections are modules of `attention`."""
        return _Unpacked()

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """The attention of `query` to `key` and `value`, and None in place of the attention weights.

        Args:
            query: As in `nn.MultiheadAttention`.
            key: As in `nn.MultiheadAttention`.
            value: As in `nn.MultiheadAttention`.
            key_padding_mask: (batch, S) or (S,); bool, True for keys to ignore, or floating-point, -inf for keys to
                ignore and 0 for the others.
            need_weights: Has no effect: the S^(k-1) weights per query are never materialized.
            attn_mask: None or **the causal mask** (L, L) of `nn.Transformer.generate_square_subsequent_mask`, in
                floating point or bool, or the mask of a prefix language model: the causal mask, except that the first p
                tokens attend all of the first p tokens. Any other mask raises an error, because it masks pairs of
                tokens, not tuples.
            average_attn_weights: Has no effect.
            is_causal: Whether `attn_mask` is the causal mask; it may then be left out. `is_causal` must be True for a
                mask inside `torch.compile` and `torch.export`, which cannot read the entries of the mask, so that there
                a mask cannot have a prefix: call ``attention`` with its argument `prefix` instead.

        Returns:
            The output, shaped like `query`, and None.

        Raises:
            ArgumentError: As in a call of `TensorAttention`, or a mask has entries other than those above. Inside
                `torch.compile` entries are checked by `torch._assert_async`, whose error is a `RuntimeError`.
        """
        arguments = {"query": query, "key": key, "value": value, "key_padding_mask": key_padding_mask}
        node = trace_as_leaf(self, arguments | {"attn_mask": attn_mask, "is_causal": is_causal})
        if node is not None:
            return node  # type: ignore[no-any-return]
        flag("is_causal", is_causal)
        prefix = 0
        if attn_mask is not None:
            prefix = _prefix_of_mask(attn_mask, query, key, is_causal, self.batch_first)
            is_causal = True
        if isinstance(key_padding_mask, Tensor) and key_padding_mask.is_floating_point():
            ignored = key_padding_mask == -torch.inf
            _require((ignored | (key_padding_mask == 0)).all(), "key_padding_mask", "entries that are 0 or -inf")
            key_padding_mask = ignored
        options = {"key_padding_mask": key_padding_mask, "is_causal": is_causal, "prefix": prefix}
        return self.attention(query, key, value, **options), None


class _Unpacked:
    """A placeholder for the packed weights of `nn.MultiheadAttention`, which `nn.TransformerEncoder` accesses.

    PyTorch does not use its kernels for nested tensors if a weight overrides PyTorch's functions.
    """

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("in_proj_weight of MultiheadTensorAttention is not a tensor; use its attention.q_proj")


def _prefix_of_mask(mask: Tensor, query: Tensor, key: Tensor, is_causal: bool, batch_first: bool) -> int:
    """The length p of the prefix of a mask: the first p tokens attend each other, and the rest of the mask is causal.

    Raises:
        ArgumentError: The mask has another form, or it has a prefix although `is_causal` is True.
    """
    expected = "None or the causal mask (L, L) of nn.Transformer.generate_square_subsequent_mask"
    if not isinstance(mask, Tensor) or not (mask.is_floating_point() or mask.dtype == torch.bool):
        got = str(mask.dtype) if isinstance(mask, Tensor) else type(mask).__name__
        raise ArgumentError("attn_mask", expected=expected, got=got)
    axis = 0 if query.dim() > 2 and not batch_first else -2
    lengths = (query.shape[axis], key.shape[axis])
    if tuple(mask.shape) != lengths or lengths[0] != lengths[1]:
        got = f"shape {tuple(mask.shape)} for {lengths[0]} queries and {lengths[1]} keys"
        raise ArgumentError("attn_mask", expected=expected, got=got)
    if not is_causal and torch.compiler.is_compiling():
        raise ArgumentError(
            "attn_mask",
            expected="is_causal=True with a mask inside torch.compile and torch.export",
            got="is_causal=False",
        )
    later = torch.ones_like(mask, dtype=torch.bool).triu(1)
    hidden = mask if mask.dtype == torch.bool else mask == -torch.inf
    attended = ~hidden if mask.dtype == torch.bool else mask == 0
    prefix = 0 if is_causal else int(number(attended[:1].sum()))
    if not is_causal:
        expected += ", with or without a prefix"
        if prefix < len(mask):  # a mask that masks nothing is not causal
            later[:prefix, :prefix] = False
    _require(torch.where(later, hidden, attended).all(), "attn_mask", f"{expected}; use windows or key_padding_mask")
    return prefix if prefix > 1 else 0


def _require(condition: Tensor, argument: str, expected: str) -> None:
    """Raise an `ArgumentError` unless a condition on the entries of an argument holds."""
    if torch.compiler.is_compiling():
        torch._assert_async(condition, f"{argument}: expected {expected}, got other entries.")
    elif not condition:
        raise ArgumentError(argument, expected=expected, got="other entries")
