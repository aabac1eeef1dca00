"""The figures on token selection beyond the paper, drawn from small runs of the same experiments."""

from __future__ import annotations

import math
from functools import cache

import pytest

from separatrix.claims.ledger import CellResult
from separatrix.lab.registry import Experiment
from separatrix.report.drawings.studies import selection
from separatrix.report.figures import FIGURES
from separatrix.report.theme import Drawing
from separatrix.selection.learners import ATTENTIONS
from separatrix.studies.selection import attention, fixed, length, positions, times
from tests.report.drawings.drawn import check_data, check_figure, check_sentence

SCHEDULE = [[60, 1.0], [20, 0.3]]


def found(experiment: Experiment, seed: int = 0, **parameters: object) -> CellResult:
    cell = experiment.cell(seed=seed, **parameters)
    return CellResult(cell.arguments, seed, experiment(seed=seed, **cell.arguments))


@cache
def results(name: str) -> tuple[CellResult, ...]:
    """Small cells of the kind that the figure's claim uses."""
    learner = attention.learner
    match name:
        case "selection_learning":
            return results("selection_learners")
        case "selection_learners":
            how = {"encoding": "one-hot", "width": 20, "steps": 8}
            return tuple(found(learner, seed, attention=kind, **how) for kind in ATTENTIONS for seed in (0, 1))
        case "selection_factors":
            how = {"encoding": "one-hot", "width": 20, "steps": 8}
            kinds = [(kind, initial) for kind in ("softmax W", "softmax QK") for initial in ("zero", "random")]
            return tuple(found(learner, attention=kind, initial=initial, **how) for kind, initial in kinds)
        case "selection_positions":
            cells = [cell for cell in positions.positions.cells() if cell.seed == 0]
            return tuple(found(learner, **{**cell.arguments, "steps": 8}) for cell in cells)
        case "length_population":
            how = {"q": 2, "d": 5, "multiples": length._MULTIPLES}
            return tuple(found(length.population, T1=T1, **how) for T1 in (20, 40))
        case "length_curve":
            size = {"T1": 12, "q": 2, "d": 2, "width": 32, "threshold": 0.7, "schedule": SCHEDULE}
            lengths = [12, 24, 48]
            sampled = found(length.sampled, **size, lengths=lengths)
            return sampled, found(length.trained, **size, lengths=lengths, batch=16)
        case "selection_time_law":
            flows = [found(times.orthogonal, T=40, q=3, d=2, width=width) for width in (2**10, 2**11)]
            return *flows, *(found(times.drawn, T=64, d=2, width=width) for width in (2**12, 2**13))
        case "selection_time_regime":
            return tuple(found(times.regime, T=T, d=2, K=K) for T in (32, 64) for K in (60, 300))
        case "fixed_encodings":
            how = {"T": 20, "q": 2, "d": 2, "schedule": SCHEDULE, "encodings": 4}
            widths = [(170, 0.3), (170, 0.4), (64, 0.5)]
            return tuple(found(fixed.fixed, width=w, threshold=t, **how) for w, t in widths)
        case _:
            size = {"T1": 12, "q": 2, "d": 2, "width": 32, "threshold": 0.7, "schedule": SCHEDULE}
            return (found(length.trained, **size, lengths=[12], batch=16),)


@cache
def drawn(name: str) -> Drawing:
    return FIGURES[name](results(name))


NAMES = [
    "selection_learners",
    "selection_learning",
    "selection_factors",
    "selection_positions",
    "length_population",
    "length_curve",
    "fixed_encodings",
    "fixed_encodings_trained",
    "selection_time_law",
    "selection_time_regime",
]


def test_all_figures_are_listed_and_named_by_claims() -> None:
    ours = {name for name, draw in FIGURES.items() if draw.__module__.startswith(f"{selection.__name__}.")}
    assert ours == set(NAMES)
    claims = (attention, fixed, length, positions, times)
    named = {figure for module in claims for value in vars(module).values() for figure in getattr(value, "figures", ())}
    assert named == ours


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_has_traces_axes_words_and_data(name: str) -> None:
    drawing = drawn(name)
    check_figure(drawing)
    check_sentence(drawing)
    check_data(drawing)


def test_every_seed_that_ended_is_a_dot_and_a_stopped_attention_says_so() -> None:
    dots = {trace.name: trace for trace in drawn("selection_learners").figure.data}
    assert set(dots) == set(ATTENTIONS)
    for kind in ATTENTIONS:
        finals = [
            cell.result["final"] for cell in results("selection_learners") if cell.parameters["attention"] == kind
        ]
        ended = [loss / attention.ZERO for loss in finals if loss is not None]
        if len(ended) == 2:
            assert list(dots[kind].x) == ended
        else:
            assert f"stopped in {2 - len(ended)} of 2 seeds" in dots[kind].text


def test_the_curve_starts_at_one_and_the_points_are_the_runs() -> None:
    sampled, trained = results("length_curve")
    traces = {trace.name.split(", ", 1)[1]: trace for trace in drawn("length_curve").figure.data}
    assert set(traces) == {"orthonormal, same training loss", "mean of the loss", "loss of the mean", "trained, seed 0"}
    for kind in ("mean of the loss", "loss of the mean", "trained, seed 0"):
        assert traces[kind].x[0] == 12
        assert traces[kind].y[0] == 1.0
    assert list(traces["mean of the loss"].y) == [loss / sampled.result["mean"][0] for loss in sampled.result["mean"]]
    assert list(traces["trained, seed 0"].y) == [loss / trained.result["loss"][0] for loss in trained.result["loss"]]


def test_the_limit_is_above_every_stage_of_training_at_the_longest() -> None:
    traces = {trace.name: trace for trace in drawn("length_population").figure.data}
    limit = traces["the limit"].y[-1]
    assert all(trace.y[-1] <= limit for name, trace in traces.items() if name.startswith("training loss"))
    assert math.isclose(traces["T<sub>2</sub><sup>2</sup> / T<sub>1</sub><sup>2</sup>"].y[-1], 100)
