"""Figures by name, each from the results of a claim's cells. Claims name them; report and explorer draw them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from separatrix.checks import one_of
from separatrix.report import drawings
from separatrix.report.charts import FIGURES
from separatrix.report.tables import Results
from separatrix.report.theme import Drawing

__all__ = ["FIGURES", "draw"]

for _module in walk_packages(drawings.__path__, f"{drawings.__name__}."):
    import_module(_module.name)


def draw(name: str, results: Results) -> Drawing:
    """Draw the figure `name` from the results of all cells of a claim that lists it."""
    return FIGURES[one_of("figure", name, sorted(FIGURES))](results)
