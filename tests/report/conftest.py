"""A ledger for the tests, so that the page under test does not depend on the registered claims; and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from separatrix import studies
from separatrix.claims import ledger
from separatrix.claims.ledger import Claim
from separatrix.report import figures as _figures  # noqa: F401  the drawings import claims into the real ledger
from tests.report import standin, visits


@pytest.fixture(scope="module")
def standins() -> Iterator[dict[str, Claim]]:
    """A ledger that contains only the test claims."""
    registry: dict[str, Claim] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "_REGISTRY", registry)
        patch.setattr(studies, "load", lambda paper=None: None)
        standin.declare_all()
        yield registry


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium; without it the test is skipped, or fails if a browser is required."""
    yield from visits.launched()
