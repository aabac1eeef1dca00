"""The report of the papers' and the studies' real claims, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from separatrix.claims import PAPERS, ledger
from separatrix.claims.reproduce import reproduce
from separatrix.lab import Store, in_process
from separatrix.report import write_report
from separatrix.studies import load
from tests.claims.cells import put_into
from tests.report.visits import DESKTOP, PHONE, Visit


@pytest.mark.timeout(2700)
@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_of_a_paper_is_drawn(browser, tmp_path: Path, paper: str) -> None:
    load(paper)
    with Store.create(tmp_path) as store:
        drawn = [claim for claim in ledger.claims(paper) if claim.figures and claim.profile == "quick"]
        put_into(store, {cell.key: cell for claim in drawn for cell in claim.cells()}.values())
        judgements = reproduce(drawn, store, in_process(), profile="quick").judgements
        address = write_report(judgements, store).as_uri()
    wanted = sum(len(judgement.claim.figures) for judgement in judgements if not judgement.missing)
    assert wanted
    # A figure that fits the narrow page fits the wide one: the figures of one paper are drawn on both.
    for device, scheme in ((PHONE, "dark"), *([(DESKTOP, "light")] if paper == "kronecker" else [])):
        with Visit(browser, address, **device, color_scheme=scheme) as page:
            led = page.locator(".highlight .plot").count()
            assert page.locator(".plot[data-state=drawn]").count() == page.locator(".plot").count() == wanted + led
            # Plotly silently omits a trace that it cannot interpret.
            empty = "all => all.filter(one => !one.querySelector('.point, .js-line, image')).map(one => one.id)"
            assert page.locator(".plot").evaluate_all(empty) == []
            assert page.evaluate("document.documentElement.scrollWidth") == device["viewport"]["width"]
