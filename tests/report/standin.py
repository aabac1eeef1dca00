"""A small ledger with every verdict, awkward texts, and its own figures, for the tests of the page."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from separatrix.claims.ledger import CellResult, Erratum, Finding, Interval, Rank, Verdict, claim, claims
from separatrix.claims.reproduce import reproduce
from separatrix.claims.verdicts import Judgement
from separatrix.lab import Cell, Store, in_process
from separatrix.report.highlights import Highlight
from separatrix.report.page import page
from tests.lab.experiments import fails, number, walk

HOSTILE = (
    """<script>document.title = "broken"</script></script><img src=x onerror="throw 1"> "q" 'q' & `n` \u2028 ]]> <!--"""
)


@dataclass(frozen=True)
class Fake:
    """The result of a figure's function."""

    figure: go.Figure
    text: str
    columns: dict[str, list[Any]]

    def csv(self) -> str:
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows([self.columns, *zip(*self.columns.values(), strict=True)])
        return stream.getvalue()


def lines(cells: Sequence[CellResult]) -> Fake:
    """A curve with error bars, and a name that tries to close its HTML element."""
    x = [cell.seed for cell in cells]
    y = [cell.result["y"] for cell in cells]
    figure = go.Figure()
    figure.add_scatter(x=x, y=y, name="measured", error_y={"array": [0.5] * len(x), "arrayminus": [0.25] * len(x)})
    figure.add_scatter(x=np.array(x), y=np.array(y) + 1, name=HOSTILE, mode="lines")
    figure.update_layout(xaxis_title="seed", yaxis_title="y")
    return Fake(figure, "y grows by one with each seed.", {"seed": x, HOSTILE: y})


def plane(cells: Sequence[CellResult]) -> Fake:
    """Two walks as a heat map, with a gap."""
    z = np.array([cell.result["path"] for cell in cells])
    z[0, 0] = np.nan
    figure = go.Figure(go.Heatmap(z=z, x=list(range(z.shape[1])), colorbar={"title": {"text": "height"}}))
    return Fake(figure, f"Each row is a walk. {HOSTILE}", {"height": list(z.flatten())})


def bars(cells: Sequence[CellResult]) -> Fake:
    """The same walks as bars, side by side."""
    figure = go.Figure(
        [go.Bar(y=cell.result["path"], name=f"seed {cell.seed}", xaxis=f"x{i}") for i, cell in enumerate(cells, 1)],
        {"xaxis": {"domain": [0, 0.45]}, "xaxis2": {"domain": [0.55, 1]}},
    )
    return Fake(figure, "Bars go up and down.", {"n": ["ä", "<"]})


HIGHLIGHTS = (
    Highlight("kronecker/lemma-1", Verdict.HOLDS, "lines", "A finding in a line", "And in a sentence."),
    Highlight("selection/theorem-6", Verdict.HOLDS, "plane", "What this store lacks", "It was found elsewhere."),
    Highlight("beyond/nothing", Verdict.HOLDS, "plane", "Of no claim on the page", "It is left out."),
)
FIGURES = {"lines": lines, "plane": plane, "bars": bars}
THEME = go.layout.Template(layout={"font": {"color": "#777777", "size": 13}, "legend": {"orientation": "h", "y": -0.2}})


def declare(paper: str, where: str, verdict: Verdict, **options: Any) -> None:
    """Register a claim whose check returns a given finding."""
    numbers, note = options.pop("numbers", {}), options.pop("note", "")
    options = {
        "says": f"{where} of {paper} says something about n.",
        "cells": lambda: [number.cell(seed=seed, x=1.0) for seed in range(5)],
        **options,
    }

    shows = {erratum.shown_by: True for erratum in options.get("errata", ())}

    @claim(paper=paper, where=where, **options)
    def check(cells: Sequence[CellResult]) -> Finding:
        return Finding(Verdict.HOLDS if shows and verdict is Verdict.HOLDS_CORRECTED else verdict, numbers, note, shows)


def walks() -> list[Cell]:
    return [walk.cell(seed=seed, steps=12) for seed in range(2)]


def declare_all() -> None:
    """Eight claims of two papers."""
    slip = Erratum("r ≤ k + g", "r ≤ binom(k + g, g)", "The count of monomials is a binomial coefficient.",
                   shown_by="more monomials than printed", rank=Rank.STATEMENT)  # fmt: skip
    declare(
        "kronecker",
        "Lemma 1",
        Verdict.HOLDS,
        figures=["lines"],
        numbers={"largest error": 1.25e-13, "cases": 12, "rate": Interval(0.5, 0.4, 0.6, 0.999)},
        note="In float64.",
    )
    declare("kronecker", "Lemma 2", Verdict.HOLDS_CORRECTED, errata=[slip], figures=["lines"])
    declare("kronecker", "Theorem 3", Verdict.HOLDS_ASYMPTOTICALLY, cells=walks, figures=["plane", "bars"])
    declare("kronecker", HOSTILE, Verdict.FAILS_AS_PRINTED, says=HOSTILE, note=HOSTILE, numbers={HOSTILE: HOSTILE},
            errata=[Erratum(HOSTILE, HOSTILE, HOSTILE, HOSTILE, rank=Rank.PROOF)])  # fmt: skip
    declare("kronecker", "Theorem 5", Verdict.ILLUSTRATED, note="A conditional lower bound; its reduction ran.")
    declare("selection", "Theorem 6", Verdict.HOLDS, profile="full", figures=["plane"],
            cells=lambda: [walk.cell(seed=7, steps=5)])  # fmt: skip
    declare("selection", "Theorem 7", Verdict.HOLDS, cells=lambda: [fails.cell(seed=s, when=1) for s in range(3)])
    declare("selection", "Theorem 8", Verdict.HOLDS)


def recorded() -> dict[str, Verdict]:
    """The recorded verdicts of these claims: one differs from the finding."""
    table = {claim.id: claim.judged([]).verdict for claim in claims()}
    return table | {"selection/theorem-7": Verdict.UNDECIDED, "kronecker/theorem-5": Verdict.HOLDS}


def judged(store: Store) -> tuple[Judgement, ...]:
    """Run the quick profile of these claims."""
    return reproduce(claims(), store, in_process(), profile="quick").judgements


def written(folder: Path) -> Path:
    """The page of these claims, in a folder."""
    with Store.create(folder) as store:
        path = folder / "report.html"
        path.write_text(page(judged(store), store, FIGURES, THEME, path, recorded(), HIGHLIGHTS), "utf-8")
    return path
