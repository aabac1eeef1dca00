"""Separatrix: attention beyond pairs, and what an attention mechanism can provably do."""

from importlib import import_module as _import_module

__version__ = "0.1.0"

_HOMES = {
    "ArgumentError": "errors",
    "SeparatrixError": "errors",
    "Certificate": "attention.certificate",
    "Plan": "attention.plan",
    "certified_attention": "attention.operator",
    "linear_attention": "attention.linear",
    "max_order": "attention.cost",
    "plan_attention": "attention.operator",
    "plan_shapes": "attention.plan",
    "tensor_attention": "attention.operator",
}
_ROOMS = ("attention", "errors", "nn")

__all__ = ["__version__", *sorted(_HOMES), *_ROOMS]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _ROOMS:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
