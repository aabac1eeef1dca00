"""The figures on softmax against linear beyond the paper, drawn from small runs of the same experiments."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from separatrix.claims.ledger import CellResult
from separatrix.lab.registry import Experiment
from separatrix.report.figures import FIGURES
from separatrix.report.theme import Drawing
from separatrix.studies.separation import learned, mechanisms, phase
from tests.report.drawings.drawn import check_data, check_figure, check_sentence

NAMES = (
    "mechanisms_at_the_papers_sizes",
    "mechanisms_as_n_grows",
    "separation_against_margin",
    "mechanisms_in_regression",
    "phase_over_signal",
    "phase_over_size",
    "learned_accuracy",
    "learned_regression",
    "weights_by_hand",
)


def found(experiment: Experiment, **parameters: Any) -> CellResult:
    cell = experiment.cell(seed=0, **parameters)
    return CellResult(cell.arguments, 0, experiment(seed=0, **cell.arguments))


@cache
def results(name: str) -> tuple[CellResult, ...]:
    """Small cells of the kind that the figure's claim uses."""
    settings = mechanisms.SETTINGS
    two = ("softmax", "linear, identity")
    match name:
        case "mechanisms_at_the_papers_sizes":
            cells = [(setting, mechanism) for setting in settings for mechanism in mechanisms.EVERY]
            return tuple(
                found(mechanisms.exactly, setting=setting, mechanism=mechanism, n=20) for setting, mechanism in cells
            )
        case "mechanisms_as_n_grows":
            cells = [(setting, mechanism, n) for setting in settings for mechanism in two for n in (100, 1000)]
            return tuple(found(mechanisms.exactly, setting=s, mechanism=mechanism, n=n) for s, mechanism, n in cells)
        case "separation_against_margin":
            cells = [(setting, mechanism, n) for setting in settings for mechanism in two for n in (200, 2000)]
            how = {"margins": [1e-4, 1e-2]}
            return tuple(
                found(mechanisms.with_margin, setting=s, mechanism=mechanism, n=n, **how) for s, mechanism, n in cells
            )
        case "mechanisms_in_regression":
            return tuple(
                found(mechanisms.regression, mechanism=mechanism, n=20, trials=5) for mechanism in mechanisms.EVERY
            )
        case "phase_over_signal":
            how = {"n": 40, "classes": 4, "m": 3, "a0": [0.0, 0.5], "a1": [0.5, 1.0, 1.5], "level": 0.2}
            return tuple(found(phase.over_signal, setting=setting, **how) for setting in settings)
        case "phase_over_size":
            how = {"log2_n": [3, 6], "log2_classes": [0, 2, 4]}
            cells = [(setting, level) for setting in settings for level in (phase.LEVEL, phase.HIGH)]
            return tuple(found(phase.over_size, setting=setting, level=level, **how) for setting, level in cells)
        case "learned_accuracy":
            how = {"n": 20, "classes": 4, "examples": 4, "steps": 3, "seeds": 2}
            cells = [
                (s, mechanism, what) for s in settings for mechanism in learned.MECHANISMS for what in learned.TRAINED
            ]
            return tuple(
                found(learned.learned, setting=s, mechanism=mechanism, trained=t, **how) for s, mechanism, t in cells
            )
        case "learned_regression":
            how = {"n": 20, "examples": 4, "steps": 3, "seeds": 2}
            return tuple(found(learned.regression, mechanism=mechanism, **how) for mechanism in learned.MECHANISMS)
        case _:
            cells = [(s, mechanism, n) for s in settings for mechanism in learned.MECHANISMS for n in (200, 2000)]
            return tuple(
                found(learned.hand, setting=s, mechanism=mechanism, n=n, classes=10) for s, mechanism, n in cells
            )


@cache
def drawn(name: str) -> Drawing:
    return FIGURES[name](results(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_has_traces_axes_words_and_data(name: str) -> None:
    drawing = drawn(name)
    check_figure(drawing, edges=name != "phase_over_size")
    check_sentence(drawing)
    check_data(drawing)


def test_the_table_shows_success_where_it_says() -> None:
    (heat,) = drawn("mechanisms_at_the_papers_sizes").figure.data
    for cell in results("mechanisms_at_the_papers_sizes"):
        row = list(heat.y).index(cell.parameters["mechanism"])
        column = mechanisms.SETTINGS.index(cell.parameters["setting"])
        assert heat.z[row][column] == cell.result["success"]


def test_the_diagrams_are_upright() -> None:
    """A column of results is a column of the heat map, and a missing width stays empty."""
    heat = drawn("phase_over_signal").figure.data[0]
    success = results("phase_over_signal")[0].result["success"]
    assert [[heat.z[k][i] for k in range(3)] for i in range(2)] == success
    sizes = drawn("phase_over_size").figure.data[0]
    assert sizes.z[2][0] is None
    assert sizes.z[2][1] is not None


def test_bars_reach_from_the_least_to_the_largest_seed() -> None:
    cell, trace = results("learned_accuracy")[0], drawn("learned_accuracy").figure.data[0]
    for at, values in enumerate(cell.result["held_out"]):
        assert trace.y[at] + trace.error_y.array[at] == pytest.approx(max(values))
        assert trace.y[at] - trace.error_y.arrayminus[at] == pytest.approx(min(values))
