"""The inputs of a call of a layer: checks of its arguments; queries, keys, values and options of the heads.

A call may have packed sequences, with cumulative lengths or ids of the sequences of tokens, or a jagged nested tensor.
PyTorch's older tracers see a layer as one node (`torch.fx`), or raise an error (TorchScript).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, fx, nn

from separatrix.attention.packed import Lengths, attend_packed, lengths_of_runs, pack
from separatrix.errors import ArgumentError, SeparatrixError
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
    layer: TensorAttention, query: Tensor, refused: Mapping[str, object], options: Mapping[str, Any]
) -> Tensor:
    """The output of a layer for a jagged nested tensor, as a jagged nested tensor.

    The query is (batch, lengths, width), and all `refused` must be None; the options apply to every sequence.
    """
    for name, given in refused.items():
        if given is not None:
            raise ArgumentError(name, expected="None for a jagged query", got=type(given).__name__)
    check_jagged(query, layer.batch_first)
    offsets = query.offsets()  # type: ignore[attr-defined]  # nested tensors have it
    tokens = layer(query.values(), cu_seqlens=offsets, **options)
    return torch.nested.nested_tensor_from_jagged(tokens, offsets)


def is_jagged(x: object) -> bool:
    """Whether x is a nested tensor in the layout `torch.jagged`."""
    return isinstance(x, Tensor) and x.is_nested and x.layout == torch.jagged


def attend_tokens(
    attend: Callable[..., Tensor],
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    options: dict[str, Any],
    cu_seqlens: Lengths | None,
    sequence_ids: Tensor | None,
) -> Tensor:
    """The outputs of the heads, (..., heads, L, head_dim), where tokens attend within their own sequence.

    Sequences are given by cumulative lengths, one tensor or one for queries and one for keys, the same for every entry
    of the batch; or by the ids of the sequences of all tokens, (..., L).
    """
    if sequence_ids is None:
        if isinstance(cu_seqlens, (list, tuple)):
            if len(cu_seqlens) != 2:
                expected = "one tensor, or two: one for the queries and one for the keys"
                raise ArgumentError("cu_seqlens", expected=expected, got=str(len(cu_seqlens)))
            cu_seqlens = [cu_seqlens[0], *[cu_seqlens[1]] * len(keys)]
        return _attend_packed(attend, q, keys, values, options, cu_seqlens)  # type: ignore[arg-type]
    if cu_seqlens is not None:
        raise ArgumentError("cu_seqlens", expected="None beside sequence_ids", got=type(cu_seqlens).__name__)
    tokens = (*q.shape[:-3], q.shape[-2])
    if not isinstance(sequence_ids, Tensor) or sequence_ids.shape != tokens or keys[0].shape[-2] != q.shape[-2]:
        got = f"shape {tuple(sequence_ids.shape)}" if isinstance(sequence_ids, Tensor) else type(sequence_ids).__name__
        raise ArgumentError("sequence_ids", expected=f"self-attention, and ids of shape {tokens}", got=got)
    masks = options["key_masks"]
    flat_masks = None if masks is None else [mask.movedim(-2, 0).flatten(1) for mask in masks]
    heads: Tensor = _attend_packed(
        attend,
        _one_row(q),
        [_one_row(key) for key in keys],
        [_one_row(value) for value in values],
        {**options, "key_masks": flat_masks},
        lengths_of_runs(sequence_ids),
    )
    rows: Tensor = heads.unflatten(1, tokens)
    return rows.movedim(0, -3)


def _one_row(x: Tensor) -> Tensor:
    """Concatenate the tokens of a batch: from (..., heads, L, head_dim) to (heads, tokens, head_dim)."""
    return x.movedim(-3, 0).flatten(1, -2)


def _attend_packed(
    attend: Callable[..., Tensor],
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    options: dict[str, Any],
    cu_seqlens: Lengths,
) -> Tensor:
    packing = pack(q, keys, values, options["key_masks"], cu_seqlens, options["query_offset"], None)

    def attend_group(group_q: Tensor, *sets: Sequence[Tensor], **places: Any) -> tuple[Tensor, ...]:
        return (attend(group_q, *sets, **{**options, **places}),)

    return attend_packed(packing, attend_group)[0]


def trace_as_leaf(layer: nn.Module, arguments: Mapping[str, Any]) -> Any:
    """The node that `torch.fx` records for a call of a layer, or None if no argument of the call is being traced.

    The default tracer would trace into the layer, whose checks need tensors.

    Raises:
        SeparatrixError: `torch.jit.trace` traces the call, or `torch.fx` traces the layer itself.
    """
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        refuse_torchscript("torch.jit.trace")
    proxy = next((x for x in arguments.values() if isinstance(x, fx.Proxy)), None)
    if proxy is None:
        return None
    path = proxy.tracer.path_of_module(layer)  # type: ignore[attr-defined]  # torch.fx has it
    if not path:
        raise SeparatrixError(
            f"torch.fx: {type(layer).__name__} is one node of a graph and cannot be traced by itself. Trace the module "
            "that contains it."
        )
    return proxy.tracer.create_proxy("call_module", path, (), dict(arguments))


def refuse_torchscript(name: str) -> NoReturn:
    """Raise the error for `torch.jit.trace` or `torch.jit.script`."""
    raise SeparatrixError(
        f"{name}: TorchScript is not supported. Use torch.export and AOTInductor for a program without the model's "
        "Python code, torch.onnx.export(dynamo=True) for ONNX, or torch.compile for speed."
    )
