"""The claims of the studies on selection and separation have their recorded verdicts."""

from __future__ import annotations

import pytest

from separatrix.studies.selection import attention, fixed, length, positions
from separatrix.studies.separation import border, learned, mechanisms, phase
from tests.studies.cells import claims_of, judged_as_recorded

CLAIMS = claims_of(attention, fixed, length, positions, border, learned, mechanisms, phase)


@pytest.mark.parametrize("id", CLAIMS)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    judged_as_recorded(CLAIMS[id])
