from __future__ import annotations

import pytest

from separatrix.claims import verdicts
from separatrix.claims.ledger import Claim, Verdict
from separatrix.claims.verdicts import Recorded
from separatrix.report import page
from tests.claims.declared import emptied


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> dict[str, Claim]:
    """An empty ledger."""
    return emptied(monkeypatch)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, empty: dict[str, Claim]) -> dict[str, Verdict]:
    """The recorded verdicts, for a test to fill in; no report is written."""
    table: dict[str, Verdict] = {}
    monkeypatch.setattr(verdicts, "expected", lambda: table)
    monkeypatch.setattr(verdicts, "records", lambda: {id: Recorded(verdict) for id, verdict in table.items()})
    monkeypatch.setattr(page, "write_report", lambda judgements, store, part: store.folder / "report.html")
    return table
