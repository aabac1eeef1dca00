"""The report: one page that says, for every claim of the papers, what was found and how to find it again.

`write_report` reads the store and writes the page; it runs nothing. The figures are functions of what was found, so
that the explorer can draw them too.
"""

from importlib import import_module as _import_module

_HOMES = {"write_report": "page"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
