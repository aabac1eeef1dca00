"""The claims on value normalisation and mixed orders: their cells are like those of the other settings."""

from __future__ import annotations

from separatrix.studies.learning import further_layer_settings as further
from separatrix.studies.learning.layer_settings import PLAIN, TRIED, layer_qk


def test_runs_are_those_of_the_other_settings() -> None:
    """The plain layer has the same cells, and the further layers differ from it in the layer and its rate alone."""
    cells = list(further.layer_values.cells())
    plain = {cell.key for cell in cells if cell.arguments["attention"] == PLAIN}
    assert plain == {cell.key for cell in layer_qk.cells() if cell.arguments["attention"] == PLAIN}
    settings: dict[str, set[str]] = {}
    for cell in cells:
        options = dict(cell.arguments)
        assert options.pop("lr") in TRIED
        settings.setdefault(options.pop("attention"), set()).add(repr((cell.seed, sorted(options.items(), key=str))))
    assert set(settings) == {PLAIN, further.VALUES, further.MIXED}
    assert len({frozenset(some) for some in settings.values()}) == 1
