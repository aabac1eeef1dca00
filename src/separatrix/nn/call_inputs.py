"""Checks the arguments of a call of a layer and computes the queries, keys, values and options of its heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from separatrix.errors import ArgumentError
from separatrix.nn.layer_checks import check_input, check_jagged, check_together, key_masks, sources_of_sets

if TYPE_CHECKING:
    from separatrix.nn.tensor_attention import TensorAttention


def call_inputs(
    layer: TensorAttention,
    query: Tensor,
    key: Tensor | Sequence[Tensor] | None,
    value: Tensor | Sequence[Tensor] | None,
    key_padding_mask: Tensor | Sequence[Tensor | None] | None,
    is_causal: bool,
    query_offset: int,
) -> tuple[Tensor, list[Tensor], list[Tensor], dict[str, Any]]:
    """Queries, keys and values of the heads, and options of `tensor_attention`, from the arguments of a call."""
    for_key, for_value = "query" if key is None else None, "key" if value is None else None
    key = query if key is None else key
    value = key if value is None else value

    def check(name: str, x: Tensor, width: int, stands_for: str | None = None) -> None:
        check_input(name, x, width, layer.dtype, layer.device, layer.batch_first, stands_for)

    check("query", query, layer.embed_dim)
    sources = sources_of_sets(key, value, key_padding_mask, layer.order)
    for place, of_keys, of_values, _ in sources:
        check(f"key{place}", of_keys, layer.kdim, for_key)
        check(f"value{place}", of_values, layer.vdim, for_value)
    if not layer.batch_first:
        query = query.movedim(0, -2)
        sources = [(place, k.movedim(0, -2), v.movedim(0, -2), mask) for place, k, v, mask in sources]
    for place, of_keys, of_values, mask in sources:
        check_together(query, of_keys, of_values, mask, place, square=is_causal and query_offset == 0)
    _, keys, values, masks = zip(*sources * (1 if len(sources) == layer.order - 1 else layer.order - 1), strict=True)
    options = {"is_causal": is_causal, "query_offset": query_offset, "key_masks": key_masks(masks)}
    return *layer.project(query, keys, values), options


def call_jagged(
    layer: TensorAttention, query: Tensor, others: Mapping[str, object], options: Mapping[str, Any]
) -> Tensor:
    """The output of a layer for a jagged nested tensor, as a jagged nested tensor.

    Args:
        layer: The layer.
        query: The nested tensor, (batch, lengths, width).
        others: The arguments that must be None for a jagged query.
        options: The arguments of the call that apply to every sequence.
    """
    for name, given in others.items():
        if given is not None:
            raise ArgumentError(name, expected="None for a jagged query", got=type(given).__name__)
    check_jagged(query, layer.batch_first)
    offsets = query.offsets()  # type: ignore[attr-defined]  # of nested tensors
    tokens = layer(query.values(), cu_seqlens=offsets, **options)
    return torch.nested.nested_tensor_from_jagged(tokens, offsets)
