"""The projections of a multi-head layer: from the checked inputs of a call to the heads, and from the heads back."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from separatrix.attention.arguments import is_dense, layout
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError
from separatrix.nn.meaning import Remembers
from separatrix.nn.tensor_parallel import local_heads


class Projections(Remembers):
    """The linear maps of a layer, ``q_proj``, ``k_proj.m``, ``v_proj.m`` and ``out_proj``, with checks of its inputs.

    There are k - 1 key sets and k - 1 value sets; the arguments are those of `TensorAttention`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        order: int,
        kdim: int | None,
        vdim: int | None,
        bias: bool,
        batch_first: bool,
        num_kv_heads: int | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        kdim = embed_dim if kdim is None else kdim
        vdim = embed_dim if vdim is None else vdim
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        least = {"embed_dim": 1, "num_heads": 1, "order": 2, "kdim": 1, "vdim": 1, "num_kv_heads": 1}
        for name, number in zip(least, (embed_dim, num_heads, order, kdim, vdim, num_kv_heads), strict=True):
            check_integer(name, number, least[name])
        if embed_dim % num_heads:
            raise ArgumentError("embed_dim", expected=f"a multiple of num_heads = {num_heads}", got=embed_dim)
        if num_heads % num_kv_heads:
            raise ArgumentError("num_kv_heads", expected=f"a divisor of num_heads = {num_heads}", got=num_kv_heads)
        self.embed_dim, self.kdim, self.vdim = embed_dim, kdim, vdim
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.num_kv_heads = num_kv_heads
        self.order = order
        self.batch_first = batch_first

        def linear(width: int, heads: int) -> nn.Linear:
            # Not filled twice: nn.Linear would draw from the global generator.
            empty = nn.Linear(width, heads * self.head_dim, bias=bias, device="meta", dtype=dtype)
            return empty.to_empty(device=torch.empty(0).device if device is None else device)

        self.q_proj = linear(embed_dim, num_heads)
        self.k_proj = nn.ModuleList(linear(kdim, num_kv_heads) for _ in range(order - 1))
        self.v_proj = nn.ModuleList(linear(vdim, num_kv_heads) for _ in range(order - 1))
        self.out_proj = linear(embed_dim, num_heads)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw every weight anew, Xavier-uniform, and set every bias to zero.

        Fewer heads of keys and values are drawn as if there were all of them, so that their variance is the same.
        """
        for parameter in self.parameters():
            if parameter.dim() == 2:
                outputs, inputs = parameter.shape
                gain = math.sqrt((inputs + outputs) / (inputs + self.embed_dim))
                nn.init.xavier_uniform_(parameter, gain, generator=generator)
            else:
                nn.init.zeros_(parameter)

    def inputs(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool,
        query_offset: int,
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor] | None]:
        """Queries, keys, values and masks of the heads, from the checked arguments of a call."""
        given_key, given_value = key, value
        key = query if key is None else key
        value = key if value is None else value
        self.check("query", query, self.embed_dim)
        self.check("key", key, self.kdim, stands_for="query" if given_key is None else None)
        self.check("value", value, self.vdim, stands_for="key" if given_value is None else None)
        if not self.batch_first:
            query, key, value = (x.movedim(0, -2) for x in (query, key, value))
        check_together(query, key, value, key_padding_mask)
        if is_causal and query_offset == 0 and key.shape[-2] != query.shape[-2]:
            expected = f"the query's length {query.shape[-2]} (is_causal without a query_offset)"
            raise ArgumentError("key", expected=expected, got=f"length {key.shape[-2]}")

        masks = None
        if key_padding_mask is not None:
            masks = [~key_padding_mask.unsqueeze(-2)] * (self.order - 1)
        return *self.project(query, key, value), masks

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The queries (..., num_heads, length, head_dim), and keys and values (..., num_kv_heads, length, head_dim).

        With tensor parallelism these are the heads of this rank.
        """
        heads, kv_heads = local_heads("num_heads", self.num_heads, self.q_proj), self._local_kv_heads
        q = self._heads(self.q_proj(query), heads)
        keys = [self._heads(projection(key), kv_heads) for projection in self.k_proj]
        return q, keys, [self._heads(projection(value), kv_heads) for projection in self.v_proj]

    @property
    def _local_kv_heads(self) -> int:
        """How many heads of keys and values this rank has."""
        return local_heads("num_kv_heads", self.num_kv_heads, self.k_proj[0])

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(*x.shape[:-1], heads, self.head_dim).transpose(-3, -2)

    def joined(self, heads: Tensor) -> Tensor:
        """The output of the layer from those of its heads, (..., num_heads, length, head_dim)."""
        out: Tensor = self.out_proj(heads.transpose(-3, -2).flatten(-2))
        return out if self.batch_first else out.movedim(-2, 0)

    def check(self, name: str, x: Tensor, width: int, stands_for: str | None = None) -> None:
        """Raise an `ArgumentError` unless an input is a dense tensor of the width, type and device of the layer."""
        if not isinstance(x, Tensor):
            raise ArgumentError(name, expected="a tensor", got=type(x).__name__)
        if not is_dense(x):
            raise ArgumentError(name, expected="a dense tensor", got=layout(x))
        got = _shape(x) if stands_for is None else f"None, which stands for {stands_for} of {_shape(x)}"
        if x.dim() < 2:
            form = "(..., length, width)" if self.batch_first else "(length, ..., width)"
            raise ArgumentError(name, expected=f"shape {form}", got=got)
        if x.shape[-1] != width:
            raise ArgumentError(name, expected=f"a last dimension of {width}", got=got)
        if x.dtype != self.dtype and not torch.is_autocast_enabled(x.device.type):
            raise ArgumentError(name, expected=f"the layer's type {self.dtype}", got=str(x.dtype))
        if x.device != self.device:
            raise ArgumentError(name, expected=f"the layer's device {self.device}", got=str(x.device))

    @property
    def dtype(self) -> torch.dtype:
        """The type of the inputs: that of the weights, or float32 if `torch.ao.quantization` has quantised them."""
        dtype: torch.dtype = parameter_of(self.out_proj, "weight").dtype
        return dtype if dtype.is_floating_point else torch.float32

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = parameter_of(self.out_proj, "weight").device
        return device


def parameter_of(linear: nn.Module, name: str) -> Any:
    """The weight or the bias of a projection, which is a method of the linear modules of `torch.ao.quantization`."""
    parameter = getattr(linear, name)
    return parameter() if callable(parameter) else parameter


def check_together(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None) -> None:
    """Raise an `ArgumentError` unless the inputs of a call, with the batch first, and their mask fit each other."""
    if key.shape[:-2] != query.shape[:-2]:
        raise ArgumentError("key", expected=f"the query's batch {tuple(query.shape[:-2])}", got=_shape(key))
    if value.shape[:-1] != key.shape[:-1]:
        raise ArgumentError("value", expected=f"the key's batch and length {tuple(key.shape[:-1])}", got=_shape(value))
    if key_padding_mask is None:
        return
    if not isinstance(key_padding_mask, Tensor) or key_padding_mask.dtype != torch.bool:
        got = key_padding_mask.dtype if isinstance(key_padding_mask, Tensor) else type(key_padding_mask).__name__
        raise ArgumentError("key_padding_mask", expected="a bool tensor, True where a key is ignored", got=str(got))
    if key_padding_mask.shape != key.shape[:-1]:
        expected = f"the key's batch and length {tuple(key.shape[:-1])}"
        raise ArgumentError("key_padding_mask", expected=expected, got=_shape(key_padding_mask))
    if key_padding_mask.device != key.device:
        raise ArgumentError(
            "key_padding_mask", expected=f"the layer's device {key.device}", got=str(key_padding_mask.device)
        )


def check_integer(name: str, number: object, least: int) -> None:
    """Raise an `ArgumentError` unless a number is an integer of at least `least`."""
    if not is_whole(number, low=least):
        raise ArgumentError(name, expected=f"an integer >= {least}", got=number)


def refuse(name: str, given: object, only: object, reason: str) -> None:
    """Raise an `ArgumentError` if an argument that `nn.MultiheadAttention` has is not the only one that makes sense."""
    if isinstance(given, Tensor) or given != only:
        got = _shape(given) if isinstance(given, Tensor) else given
        raise ArgumentError(name, expected=f"{only!r} ({reason})", got=got)


def _shape(x: Tensor) -> str:
    return f"shape {tuple(x.shape)}"
