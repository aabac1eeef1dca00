"""Every figure of every claim of the papers has traces, axes, a sentence and data."""

from __future__ import annotations

from typing import ClassVar

import pytest

from separatrix.claims import load
from separatrix.claims.ledger import claims
from tests.report.drawings.drawn import check_data, check_figure, check_sentence, drawn

load()


class FiguresOfPaper:
    """The figures of a paper's claims; a subclass names the paper."""

    paper: ClassVar[str]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.parametrize(
            ("name", "id"), [(name, claim.id) for claim in claims(self.paper) for name in claim.figures]
        )

    def test_it_is_drawn(self, name: str, id: str) -> None:
        drawing = drawn(name, id)
        check_figure(drawing)
        check_sentence(drawing)
        check_data(drawing)


class TestKronecker(FiguresOfPaper):
    paper = "kronecker"


class TestSelection(FiguresOfPaper):
    paper = "selection"


class TestSeparation(FiguresOfPaper):
    paper = "separation"
