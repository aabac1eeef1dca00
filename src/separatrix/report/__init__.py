"""The report: an HTML page with the verdict, the evidence and the figures of every claim, and the commands that rerun
them.

`write_report` reads the store and writes the page; it runs no cells. The figures are functions of results, which the
explorer uses, too.
"""

from importlib import import_module as _import_module

_HOMES = {"write_report": "page"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
