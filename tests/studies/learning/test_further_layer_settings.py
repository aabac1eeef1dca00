"""The claims on value normalisation and mixed orders: their verdicts, and cells like those of the other settings."""

from __future__ import annotations

import pytest

from separatrix.studies.learning import further_layer_settings as further
from separatrix.studies.learning.layer_settings import CLAIMS, PLAIN, TRIED
from tests.studies.cells import claims_of, judged_as_recorded

OURS = claims_of(further)


@pytest.mark.parametrize("id", OURS)
def test_verdicts_are_recorded(id: str) -> None:
    judged_as_recorded(OURS[id])


def test_runs_are_those_of_the_other_settings() -> None:
    """The plain layer has the same cells, and the further layers differ from it in the layer and its rate alone."""
    cells = list(further.layer_values.cells())
    plain = {cell.key for cell in cells if cell.arguments["attention"] == PLAIN}
    assert plain == {cell.key for cell in CLAIMS["qk norm"].cells() if cell.arguments["attention"] == PLAIN}
    settings: dict[str, set[str]] = {}
    for cell in cells:
        options = dict(cell.arguments)
        assert options.pop("lr") in TRIED
        settings.setdefault(options.pop("attention"), set()).add(repr((cell.seed, sorted(options.items(), key=str))))
    assert set(settings) == {PLAIN, further.VALUES, further.MIXED}
    assert len({frozenset(some) for some in settings.values()}) == 1
