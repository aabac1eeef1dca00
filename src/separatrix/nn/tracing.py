"""Support of PyTorch's older tracers: a layer is one node in `torch.fx`, and TorchScript raises an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import torch
from torch import fx, nn

from separatrix.errors import SeparatrixError


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
    path = proxy.tracer.path_of_module(layer)  # type: ignore[attr-defined]  # of Tracer, which traces modules
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
