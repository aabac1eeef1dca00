from __future__ import annotations

import pytest

from separatrix.claims.ledger import Claim
from tests.claims.declared import emptied


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> dict[str, Claim]:
    """A ledger with no claims in it."""
    return emptied(monkeypatch)
