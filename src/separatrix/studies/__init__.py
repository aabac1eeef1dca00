"""Studies that go beyond the papers: experiments and claims of our own, which the ledger lists under "beyond".

- `learning`: what small causal models learn that differ only in their attention.
- `matching`: learning planted triples: heads of order 3 against heads of order 2.
- `selection`: sparse token selection with other attentions, encodings and lengths than the paper's.
- `separation`: softmax against linear attention: other mechanisms, learned weights, phase diagrams, the exact border.
- `seeds`: means over seeds with confidence intervals, of single or paired runs.

Importing this package imports no study; `load` imports the studies and the papers' claims.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from separatrix import claims

NAME = "beyond"
"""The name of the studies in the ledger: the prefix of their claims' ids and of their experiments' names."""


def modules() -> list[str]:
    """The names of the modules of all studies, in alphabetical order; only their packages are imported."""
    return sorted(module.name for module in walk_packages(__path__, f"{__name__}.") if not module.ispkg)


def load(paper: str | None = None) -> None:
    """Import modules of claims, so that their claims and experiments are registered.

    Args:
        paper: The name of a paper for its claims alone, "beyond" for the studies alone, None for all.
    """
    if paper != NAME:
        claims.load(paper)
    if paper in (None, NAME):
        for module in modules():
            import_module(module)
