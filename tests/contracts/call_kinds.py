"""The kinds of attention calls: each as a module, its inputs, and its definition, written out with `reference`.

A module's *leaves* are its inputs and then its parameters; the definition is a function of the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import separatrix as sx
from separatrix.attention import reference

BATCH, D, HEADS = 2, 2, 2


@dataclass(frozen=True)
class Subject:
    """A module with its inputs and its definition; `error` is the allowed difference, in the dtype of the module."""

    module: nn.Module
    inputs: tuple[Tensor, ...]
    definition: Callable[..., Tensor]
    error: float

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.module.named_parameters()]

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        return (*self.inputs, *self.module.parameters())

    def function(self, *leaves: Tensor) -> Tensor:
        """The module as a function of its leaves."""
        count = len(self.inputs)
        parameters = dict(zip(self.names, leaves[count:], strict=True))
        return torch.func.functional_call(self.module, parameters, leaves[:count])


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).sub(0.5).to(dtype)


def hidden(length: int, device: torch.device) -> Tensor:
    """A mask of keys that may not be attended: the key at index 1."""
    return torch.arange(length, device=device) == 1


def both(out: Tensor, lse: Tensor) -> Tensor:
    """Output and log-sum-exp in one tensor; infinities become 0."""
    return torch.cat([out, lse.masked_fill(lse == -torch.inf, 0.0).unsqueeze(-1)], -1)


class Call(nn.Module):
    """`tensor_attention`, with the log-sum-exp if requested, with a mask on the first key set if `masked`."""

    def __init__(self, masked: bool = False, **options: object) -> None:
        super().__init__()
        self.masked, self.options = masked, options

    def masks(self, keys: Sequence[Tensor]) -> list[Tensor | None] | None:
        if not self.masked:
            return None
        return [~hidden(keys[0].shape[-2], keys[0].device), *[None] * (len(keys) - 1)]

    def forward(self, query: Tensor, *sets: Tensor) -> Tensor:
        keys, values = sets[: len(sets) // 2], sets[len(sets) // 2 :]
        masks = self.masks(keys)
        if len(keys) == 1:
            keys, values = keys[0], values[0]
        output = sx.tensor_attention(query, keys, values, key_masks=masks, **self.options)
        return both(*output) if self.options.get("return_lse") else output

    def definition(self, query: Tensor, *sets: Tensor) -> Tensor:
        keys, values = sets[: len(sets) // 2], sets[len(sets) // 2 :]
        ours = ("return_lse", "tolerance", "method")
        options = {name: option for name, option in self.options.items() if name not in ours}
        output = reference.tensor_attention(query, keys, values, key_masks=self.masks(keys), **options)
        return both(*output) if self.options.get("return_lse") else output[0]


class Layer(nn.Module):
    """`nn.TensorAttention` of order 3, with a padded key if `masked`."""

    def __init__(self, masked: bool, is_causal: bool, **options: object) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.attention = sx.nn.TensorAttention(D * HEADS, HEADS, order=3, generator=generator, **options)
        with torch.no_grad():
            for seed, parameter in enumerate(self.parameters()):
                if parameter.dim() == 1:  # biases and temperatures start at 0, where derivatives may vanish
                    parameter.copy_(draw(100 + seed, *parameter.shape))
        self.masked, self.is_causal = masked, is_causal

    def forward(self, x: Tensor) -> Tensor:
        mask = hidden(x.shape[-2], x.device).expand(x.shape[:-1]) if self.masked else None
        return self.attention(x, key_padding_mask=mask, is_causal=self.is_causal)

    def definition(self, x: Tensor, *parameters: Tensor) -> Tensor:
        named = dict(zip((name for name, _ in self.attention.named_parameters()), parameters, strict=True))

        def project(name: str) -> Tensor:
            y = x @ named[f"{name}.weight"].mT + named[f"{name}.bias"]
            return y.reshape(*y.shape[:-1], HEADS, D).transpose(-3, -2)

        q, k = project("q_proj"), [project(f"k_proj.{m}") for m in range(2)]
        v = [project(f"v_proj.{m}") for m in range(2)]
        bound = self.attention.bound
        if bound is not None:
            q, *k = (y / y.abs().pow(3).sum(-1, keepdim=True).pow(1 / 3) for y in (q, *k))
            q = q * torch.sigmoid(named["temperature"]).reshape(-1, 1, 1)
        masks = [~hidden(x.shape[-2], x.device)] * 2 if self.masked else None
        scale = 1 / D if bound is None else bound
        out, _ = reference.tensor_attention(q, k, v, is_causal=self.is_causal, key_masks=masks, scale=scale)
        return out.transpose(-3, -2).flatten(-2) @ named["out_proj.weight"].mT + named["out_proj.bias"]


def _call(order: int, length: int, dtype: torch.dtype, error: float | None = None, **options: object) -> Subject:
    module = Call(**options)
    batch = (BATCH, HEADS) if order == 2 else (BATCH,)  # ordinary attention in four dimensions has a separate code path
    inputs = tuple(draw(seed, *batch, length, D, dtype=dtype) for seed in range(2 * order - 1))
    return Subject(module, inputs, module.definition, error or (1e-10 if dtype == torch.float64 else 1e-5))


def _certified(length: int, dtype: torch.dtype) -> Subject:
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    return _call(3, length, dtype, 100 * tolerance, tolerance=tolerance, method="polynomial")


def _layer(length: int, dtype: torch.dtype, error: float, **options: object) -> Subject:
    module = Layer(dtype=dtype, **options)
    return Subject(module, (draw(0, BATCH, length, D * HEADS, dtype=dtype),), module.definition, error)


def _bounded(length: int, dtype: torch.dtype, **options: object) -> Subject:
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    return _layer(length, dtype, 100 * tolerance, bound=1.0, tolerance=tolerance, **options)


KINDS: dict[str, Callable[[int, torch.dtype], Subject]] = {
    "order 2": lambda n, dtype: _call(2, n, dtype),
    "order 3": lambda n, dtype: _call(3, n, dtype),
    "order 4": lambda n, dtype: _call(4, n, dtype),
    "causal": lambda n, dtype: _call(3, n, dtype, is_causal=True, query_offset=-1, return_lse=True),
    "windows": lambda n, dtype: _call(3, n, dtype, windows=[2, None], query_offset=1),
    "masks": lambda n, dtype: _call(3, n, dtype, masked=True, return_lse=True),
    "certified": _certified,
    "layer": lambda n, dtype: _layer(n, dtype, 1e-10, masked=True, is_causal=True),
    "bounded layer": lambda n, dtype: _bounded(n, dtype, masked=True, is_causal=False),
    "bounded, causal": lambda n, dtype: _bounded(n, dtype, masked=False, is_causal=True),
}
"""A kind of call, made from a length and a dtype."""
