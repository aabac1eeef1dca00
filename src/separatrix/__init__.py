"""Separatrix: attention beyond pairs, and what an attention mechanism can provably do."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from separatrix import attention, errors, hardness, nn, selection, separation
    from separatrix.attention import forms
    from separatrix.attention.checker import Verification, verify
    from separatrix.attention.exact.error_bound import exact_error_bound
    from separatrix.attention.linear import linear_attention
    from separatrix.attention.near_linear.certificate import Certificate
    from separatrix.attention.near_linear.gradient_certificate import GradientCertificate
    from separatrix.attention.near_linear.plan import Plan
    from separatrix.attention.near_linear.worst_case import max_order, plan_shapes
    from separatrix.attention.operator import certified_attention, plan_attention, tensor_attention
    from separatrix.attention.streaming.state import TensorAttentionState
    from separatrix.attention.weights.chosen_queries import attention_weights
    from separatrix.attention.weights.pair_map import PairMap, pair_map
    from separatrix.attention.weights.top_tuples import TopTuples, top_tuples
    from separatrix.errors import ArgumentError, LongCallWarning, SeparatrixError

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Certificate",
    "GradientCertificate",
    "LongCallWarning",
    "PairMap",
    "Plan",
    "SeparatrixError",
    "TensorAttentionState",
    "TopTuples",
    "Verification",
    "__version__",
    "attention",
    "attention_weights",
    "certified_attention",
    "errors",
    "exact_error_bound",
    "forms",
    "hardness",
    "linear_attention",
    "max_order",
    "nn",
    "pair_map",
    "plan_attention",
    "plan_shapes",
    "selection",
    "separation",
    "tensor_attention",
    "top_tuples",
    "verify",
]

_HOMES = {
    "ArgumentError": "errors",
    "Certificate": "attention.near_linear.certificate",
    "GradientCertificate": "attention.near_linear.gradient_certificate",
    "LongCallWarning": "errors",
    "PairMap": "attention.weights.pair_map",
    "Plan": "attention.near_linear.plan",
    "SeparatrixError": "errors",
    "TensorAttentionState": "attention.streaming.state",
    "TopTuples": "attention.weights.top_tuples",
    "Verification": "attention.checker",
    "attention_weights": "attention.weights.chosen_queries",
    "certified_attention": "attention.operator",
    "exact_error_bound": "attention.exact.error_bound",
    "linear_attention": "attention.linear",
    "max_order": "attention.near_linear.worst_case",
    "pair_map": "attention.weights.pair_map",
    "plan_attention": "attention.operator",
    "plan_shapes": "attention.near_linear.worst_case",
    "tensor_attention": "attention.operator",
    "top_tuples": "attention.weights.top_tuples",
    "verify": "attention.checker",
}


_MODULES = {"forms": "attention.forms"}


def __getattr__(name: str) -> object:
    """Load each public name on first use, so that `import separatrix` does not import torch (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _import_module(f"{__name__}.{_HOMES.get(name, _MODULES.get(name, name))}")
    globals()[name] = value = getattr(home, name) if name in _HOMES else home
    return value


def __dir__() -> list[str]:
    return __all__
