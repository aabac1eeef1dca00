"""The claims on positional encodings: their verdicts, and results that change them."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import Verdict
from separatrix.studies.selection import positions
from tests.studies.cells import changed, claims_of, given, ran

OURS = claims_of(positions)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


@pytest.mark.parametrize("kind", ["fixed", "rotary", "learned"])
def test_an_encoding_that_generalised_would_be_detected(kind: str) -> None:
    id = "token-selection/positions-and-length"
    cells = ran(id)
    assert (
        OURS[id].check(changed(cells, given(encoding=kind), at_length={"25": 0.1, "30": 0.1, "40": 0.1})).verdict
        is FAILS
    )
