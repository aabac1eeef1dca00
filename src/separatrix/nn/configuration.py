"""The configuration of a layer: its arguments, and the part that is saved with weights and compared on loading.

Trained weights are meaningful only with the scale, or the bound, that they were trained with. These numbers are the
extra state of a layer, stored as a tensor of JSON bytes because safetensors files contain only tensors.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from separatrix.attention.streaming.saved_state import Configuration, from_bytes
from separatrix.errors import ArgumentError

if TYPE_CHECKING:
    from separatrix.nn.tensor_attention import TensorAttention

KEY = "_extra_state"
"""The key of the extra state in a state dict, after the prefix of the layer."""
FREE = ("tolerance",)
"""Entries that may differ between the saved weights and the layer that loads them."""
NORMS = ("qk_norm", "head_norm", "learned_scale")
"""The arguments that add gains to a layer."""
PLACES: Configuration = {"lookahead": 0, "sinks": 0, "distinct": False}
"""The arguments that change which tuples are attended. Like windows, they may differ from those in training."""
UNSAVED: Configuration = {"form": "product", "alibi": None, "key_bias": 0, **dict.fromkeys(NORMS, False)}
"""Entries that are saved only if they differ from these values, which the layers of earlier versions had."""


def constructor_arguments(layer: TensorAttention) -> dict[str, object]:
    """The arguments of the constructor of a layer that JSON can represent."""
    names = ("embed_dim", "num_heads", "kdim", "vdim", "batch_first", "scale", "method")
    more = ("num_kv_heads", "rotary", "form", "key_bias", *NORMS, *PLACES, "bound", "tolerance")
    arguments: dict[str, object] = {name: getattr(layer, name) for name in (*names, *more)}
    arguments["order"] = order_argument(layer)
    for name, entries in (("windows", layer.windows), ("alibi", layer.alibi)):
        arguments[name] = None if entries is None else list(entries)
    return arguments | {"bias": parameter_of(layer.q_proj, "bias") is not None}


def order_argument(layer: TensorAttention) -> int | list[int]:
    """The argument `order` of a layer: one number, or a list with one for each head if they differ."""
    return list(layer.orders) if layer.has_mixed_orders else layer.order


def changed_arguments(layer: TensorAttention) -> dict[str, object]:
    """The sizes of a layer and the arguments that differ from their defaults, for its `repr`."""
    defaults: dict[str, object] = {"kdim": layer.embed_dim, "vdim": layer.embed_dim}
    defaults |= {"batch_first": True, "scale": None, "windows": None, "method": "auto"}
    defaults |= {"num_kv_heads": layer.num_heads, "rotary": None, "bound": None, "tolerance": None}
    defaults |= {**PLACES, **UNSAVED}
    changed = {name: getattr(layer, name) for name, value in defaults.items() if getattr(layer, name) != value}
    return {"embed_dim": layer.embed_dim, "num_heads": layer.num_heads, "order": order_argument(layer), **changed}


def saved_configuration(layer: TensorAttention) -> dict[str, object]:
    """The saved entries: the tolerance, and the arguments that change the function which the weights compute."""
    scale = 1 / layer.head_dim if layer.scale is None and layer.bound is None else layer.scale
    sizes: dict[str, object] = {"order": order_argument(layer), "num_heads": layer.num_heads, "scale": scale}
    sizes |= {"rotary": layer.rotary, "bound": layer.bound, "tolerance": layer.tolerance}
    scoring: dict[str, object] = {"form": layer.form, "alibi": None if layer.alibi is None else list(layer.alibi)}
    scoring |= {name: getattr(layer, name) for name in ("key_bias", *NORMS)}
    return sizes | {name: value for name, value in scoring.items() if value != UNSAVED[name]}


def parameter_of(linear: nn.Module, name: str) -> Any:
    """The weight or the bias of a projection; in linear modules of `torch.ao.quantization` it is a method."""
    parameter = getattr(linear, name)
    return parameter() if callable(parameter) else parameter


def check_extra_state(configuration: Configuration, state: object) -> None:
    """Raise an `ArgumentError` unless a saved extra state is of a layer with the same configuration."""
    if isinstance(state, Tensor) and state.is_floating_point() and torch.equal(state, state.to(torch.uint8).to(state)):
        # The whole state dict was cast: every floating-point type represents bytes exactly.
        state = state.to(torch.uint8)
    saved = from_bytes(state, f"state_dict['{KEY}']")
    for name, value in {**UNSAVED, **configuration}.items():
        of_saved = saved.get(name, UNSAVED.get(name))
        if name not in FREE and of_saved != value:
            expected = f"weights of a layer with {name} = {value}, as in this layer"
            raise ArgumentError("state_dict", expected=expected, got=f"weights with {name} = {of_saved}")


def check_state_dict(layer: TensorAttention, state_dict: Mapping[str, Any], prefix: str) -> None:
    """Compare the configuration in a state dict with that of a layer, before any of the weights is loaded.

    A state dict with only some of the weights, such as the adapters that PEFT saves, need not have a configuration. If
    it has all of the weights but no configuration, a warning is emitted.
    """
    configuration = saved_configuration(layer)
    if prefix + KEY in state_dict:
        check_extra_state(configuration, state_dict[prefix + KEY])
    elif all(prefix + name in state_dict for name, _ in layer.named_parameters()):
        entries = ", ".join(f"{name} = {value}" for name, value in configuration.items())
        warnings.warn(
            f"The state dict has no '{prefix + KEY}': it was saved by an earlier version, without the layer's "
            f"configuration. If the layer had {entries}, load it with strict=False.",
            stacklevel=3,
        )


def check_config(config: object, names: Sequence[str]) -> None:
    """Raise an `ArgumentError` unless `config` maps some of these names to values, the first two among them."""
    if not isinstance(config, Mapping):
        raise ArgumentError("config", expected="a mapping from names to values", got=type(config).__name__)
    for name in config:
        if name not in names:
            raise ArgumentError("config", expected=f"names out of {[*names]}", got=repr(name))
    for name in names[:2]:
        if name not in config:
            raise ArgumentError("config", expected=f"an entry {name!r}", got=f"{sorted(config)}")
