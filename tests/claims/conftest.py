from __future__ import annotations

import pytest

from separatrix.claims.ledger import Claim
from tests.claims.declared import emptied


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> dict[str, Claim]:
    """An empty ledger."""
    return emptied(monkeypatch)
