"""The ledger: every claim of the papers that a program can check.

Each paper has a package, whose files are named by the places of the paper: `kronecker/theorem_1_4.py`. `ledger` defines
claims and how misprints are judged, `verdicts` judges claims from the store. Importing this package imports no claim;
`load` imports the modules that declare the papers' claims, and `studies.load` also those of the studies.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules


@dataclass(frozen=True)
class Paper:
    """A paper, and its short name in claims and commands.

    `version` is the version that was read: where and when it appeared, according to its text or to a text that cites
    it.
    """

    name: str
    title: str
    authors: str
    version: str = ""


PAPERS = {
    paper.name: paper
    for paper in (
        Paper(
            "separation",
            "Why Softmax Attention Outperforms Linear Attention",
            "Yichuan Deng, Zhao Song, Kaijun Yuan, Tianyi Zhou",
            "the text that was read has no date or identifier; the latest works that it cites are of 2023",
        ),
        Paper(
            "kronecker",
            "How to Capture Higher-order Correlations? Generalizing Matrix Softmax Attention to Kronecker Computation",
            "Josh Alman, Zhao Song",
            "arXiv:2310.04064, 2023",
        ),
        Paper(
            "selection",
            "Transformers Provably Learn Sparse Token Selection While Fully-Connected Nets Cannot",
            "Zixuan Wang, Stanley Wei, Daniel Hsu, Jason D. Lee",
            "Proceedings of the 41st International Conference on Machine Learning, PMLR 235, 2024",
        ),
        Paper("beyond", "Beyond the papers", "Separatrix"),
    )
}


def modules(paper: str | None = None) -> list[str]:
    """The names of the modules that hold the papers' claims, or one paper's claims; nothing is imported."""
    names: list[str] = []
    for package in sorted(iter_modules(__path__, f"{__name__}.")):
        name = package.name.rpartition(".")[2]
        if package.ispkg and paper in (None, name):
            folders = [f"{folder}/{name}" for folder in __path__]
            names += sorted(module.name for module in iter_modules(folders, f"{package.name}."))
    return names


def load(paper: str | None = None) -> None:
    """Import the modules of the papers' claims, or of one paper's, so that claims and experiments are registered."""
    for module in modules(paper):
        import_module(module)
