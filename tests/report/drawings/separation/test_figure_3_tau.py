"""The figures of Figure 3."""

from __future__ import annotations

from separatrix.claims.ledger import Found
from separatrix.claims.separation.figure_3_tau import success_by_tau
from separatrix.report.drawings.separation import figure_3_tau
from separatrix.report.figures import draw
from separatrix.report.theme import Drawing
from tests.claims.cells import done
from tests.contracts.drawing_contract import DrawingContract


class TestFigure3Tau(DrawingContract):
    module = figure_3_tau
    shown = (("success_by_tau", "separation/figure-3/tau"),)

    def drawing(self, name: str, id: str) -> Drawing:
        """Fewer points than the claim has, which take seconds."""
        cells = [success_by_tau.cell(seed=0, n=n, taus=["0.1", "0.3", "0.6"]) for n in (30, 50)]
        return draw(name, [Found(cell.arguments, cell.seed, done(cell)) for cell in cells])
