"""A small ledger for the tests, with a figure, and a store that has the results of two of its three claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from separatrix import studies
from separatrix.claims import ledger
from separatrix.claims.ledger import CellResult, Erratum, Finding, Rank, Verdict, claim
from separatrix.claims.reproduce import reproduce
from separatrix.explorer.claims import judged_claims
from separatrix.lab import Store, in_process
from separatrix.report import figures as _figures  # noqa: F401  the drawings import claims into the real ledger
from separatrix.report.charts import FIGURES, curve
from separatrix.report.theme import BLUE, Drawing, figure
from tests.lab.experiments import number

SHELVED = {
    "separation/theorem-1": "holds",
    "kronecker/lemma-2": "holds corrected",
    "selection/figure-3": "not run here",
}
HOSTILE = "<img src=x onerror='throw 1'> grows with each seed & more"


def line(found: Sequence[CellResult]) -> Drawing:
    """Draw y against the seed."""
    x, y = [one.seed for one in found], [one.result["y"] for one in found]
    drawn = figure("seed", "y", height=300)
    drawn.add_trace(curve("y", x, y, BLUE))
    return Drawing(drawn, "y grows with the seed.", {"seed": x, "y": y})


def _declare() -> None:
    @claim(paper="separation", where="Theorem 1", says=HOSTILE, cells=lambda: [number.cell(seed=0, x=1.0)])
    def theorem_1(found: Sequence[CellResult]) -> Finding:
        return Finding(Verdict.HOLDS, note="As it says.")

    slip = Erratum(
        r"twice, $\tilde{n} < 2 n$",
        "once",
        "It was counted twice.",
        shown_by="the count is twice as large",
        rank=Rank.PROOF,
    )

    @claim(
        paper="kronecker",
        where="Lemma 2",
        says=r"The sum $\sum_{i = 1}^n \frac{1}{i}$ is counted.",
        cells=lambda: [number.cell(seed=seed, x=2.0) for seed in range(2)],
        errata=[slip],
        figures=["line"],
    )
    def lemma_2(found: Sequence[CellResult]) -> Finding:
        """The largest y against the correct value."""
        return Finding(Verdict.HOLDS, {"largest": max(one.result["y"] for one in found)}, shows={slip.shown_by: True})

    @claim(
        paper="selection",
        where="Figure 3",
        says="A figure of many runs.",
        profile="full",
        cells=lambda: [number.cell(seed=seed, x=3.0) for seed in range(2)],
        figures=["line"],
    )
    def figure_3(found: Sequence[CellResult]) -> Finding:
        return Finding(Verdict.HOLDS)


@contextmanager
def declared() -> Iterator[None]:
    """A ledger with exactly these three claims, and no recorded verdict on them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "_REGISTRY", {})
        patch.setattr(studies, "load", lambda paper=None: None)
        patch.setattr(judged_claims, "records", dict)
        patch.setitem(FIGURES, "line", line)
        _declare()
        yield


def filled(folder: Path) -> Path:
    """A store with the results of the quick claims."""
    with Store.create(folder) as store:
        reproduce(ledger.claims(), store, in_process(), profile="quick")
    return folder
