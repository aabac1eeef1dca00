"""The figures on small trained models, drawn from synthetic runs and from small cells."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from separatrix.claims.ledger import CellResult
from separatrix.report.drawings.studies import learning
from separatrix.report.figures import FIGURES
from separatrix.report.theme import Drawing
from separatrix.studies.learning import (
    growth,
    join,
    join_alike,
    join_stages,
    language_model,
    layer_settings,
    layer_settings_tasks,
    match,
    polynomial,
    recall,
    runs,
    text,
)
from separatrix.studies.learning.mechanisms import JOINING, JOINING_ALIKE, LAYERED, LAYERS, MECHANISMS
from tests.report.drawings.drawn import check_data, check_figure, check_sentence

RUNS = ["learning_curves", "learning_ends", "learning_compute"]
JOINS = ["join_guessing", "join_longer", "join_rates", "join_stages", "join_time"]
SETTINGS = ["layer_rates", "layer_leads"]
NAMES = [*RUNS, "learning_growth", "learning_bytes", "recall_radius", "learning_roads", *JOINS, *SETTINGS]


def on(task: str) -> dict[str, str]:
    """The parameter that identifies a task: a text is identified by its hash."""
    return {"text": "0123"} if task == "text" else {"task": task}


def run(task: str, attention: str, seed: int) -> CellResult:
    place = list(MECHANISMS).index(attention)
    values = [0.1, 0.2 + 0.01 * place + 0.002 * seed, 0.3 + 0.01 * place + 0.002 * seed]
    parameters = {**on(task), "attention": attention, "steps": 10, "compute_steps": 10 + place}
    steps = [0, 10, 10 + place] if place else [0, 10]
    result = {"step": steps, "accuracy": values[: len(steps)], "loss": [1 - value for value in values[: len(steps)]]}
    return CellResult(parameters, seed, {**result, "parameters": 1000, "step_flops": 1e6 / (10 + place)}, seconds=1.5)


@cache
def results(name: str, task: str = "recall") -> tuple[CellResult, ...]:
    if name in RUNS:
        return tuple(run(task, attention, seed) for attention in MECHANISMS for seed in (1, 2, 3))
    if name == "join_guessing":
        right = {"by_one_head": 0, "by_two_hops": 0}
        sizes = [{"facts": facts, "relations": 4} for facts in (8, 32, 2)] + [{"facts": 8, "graph": "0123"}]
        return tuple(CellResult(size, 0, {**right, "guessing": 2 / (2 + size["facts"])}) for size in sizes)
    if name == "join_longer":
        given = {"size": [8, 8, 4], "longer": [16, 24]}
        return tuple(
            CellResult(
                {**given, "attention": kind}, seed, {"accuracy": [0.1, 0.9], "elsewhere": [0.8, 0.7 + 0.01 * place]}
            )
            for place, kind in enumerate(JOINING)
            for seed in (1, 2, 3)
        )
    if name == "join_stages":
        accuracy = [[0.1 * stage + 0.01 * place for place in range(4)] for stage in range(4)]
        return tuple(
            CellResult({"attention": kind}, seed, {"accuracy": accuracy}) for kind in JOINING for seed in (1, 2)
        )
    if name in ("join_rates", "join_time"):
        return tuple(
            CellResult(
                {"attention": kind, "lr": rate, "steps": 10, "compute_steps": 20, "size": [8, 8, 4]},
                seed,
                {"step": [0, 10, 20], "accuracy": [0.1, 0.5, 0.6 + 0.01 * place + 10 * rate]},
            )
            for place, kind in enumerate(JOINING_ALIKE)
            for rate in ((0.002, 0.01) if name == "join_rates" else (0.01,))
            for seed in ((0,) if name == "join_rates" else (1, 2, 3))
        )
    if name in SETTINGS:
        return tuple(
            CellResult(
                {"task": task, "attention": kind, "lr": rate, "steps": 10},
                seed,
                {"step": [10], "accuracy": [0.5 + 0.1 * place + 0.01 * seed], "loss": [2 - 0.1 * place - rate]},
            )
            for task in layer_settings_tasks.TASKS
            for place, kind in enumerate(LAYERS)
            for rate in ((0.005, 0.01) if name == "layer_rates" else (0.01,))
            for seed in ((0,) if name == "layer_rates" else (1, 2, 3))
        )
    if name == "recall_radius":
        return (CellResult({"order": 3, "parts": 2, "shared": 2}, 0, {"n": 9, "by_one_head": 0, "by_two_hops": 0}),)
    if name == "learning_roads":
        kinds = [("recall", "order 3, R = 0.5"), ("text", "order 3, R = 1")]
        result = {"step": [0, 5], "exact_loss": [2.0, 1.0], "polynomial_loss": [2.0, 1.25]}
        return tuple(CellResult({**on(t), "attention": a}, seed, result) for t, a in kinds for seed in (1, 2))
    cells = []
    for place, attention in enumerate(growth._POWERS, start=1):
        for n in (32, 64):
            counted = {"flops": float(place * n), "peak_bytes": place * n, "kept_bytes": place, "error": None}
            cells.append(CellResult({"attention": attention, "n": n}, 0, counted, seconds=9.0))
            cells.append(CellResult({"attention": attention, "n": n}, 0, {"gradient": 1.0}, seconds=0.01 * place))
    return tuple(cells)


@cache
def drawn(name: str, task: str = "recall") -> Drawing:
    return FIGURES[name](results(name, task))


def test_all_figures_are_listed_and_named_by_claims() -> None:
    ours = {name for name, draw in FIGURES.items() if draw.__module__.startswith(f"{learning.__name__}.")}
    assert ours == set(NAMES)
    claims = (growth, join, join_alike, join_stages, language_model, layer_settings, layer_settings_tasks, match)
    claims += (polynomial, recall, runs, text)
    named = {figure for module in claims for value in vars(module).values() for figure in getattr(value, "figures", ())}
    assert named == ours


@pytest.mark.parametrize(("name", "task"), [*((name, "recall") for name in NAMES), *((name, "text") for name in RUNS)])
def test_a_figure_has_traces_axes_words_and_data(name: str, task: str) -> None:
    drawing = drawn(name, task)
    check_figure(drawing, y_title=name != "learning_ends")
    check_sentence(drawing)
    check_data(drawing)


def test_curves_are_means_over_the_steps_of_all_seeds() -> None:
    traces = {trace.name: trace for trace in drawn("learning_curves").figure.data}
    assert list(traces) == list(MECHANISMS)
    assert list(traces["order 3"].x) == [0, 10]
    assert traces["order 3"].y[-1] == pytest.approx(0.2 + 0.09 + 0.004)
    assert list(drawn("learning_curves", "text").figure.data[-1].x) == [10]


def test_ends_are_read_twice_with_intervals() -> None:
    steps, seeds, compute, _ = drawn("learning_ends").figure.data
    assert list(steps.text) == list(MECHANISMS)
    assert (len(steps.x), len(seeds.x)) == (10, 30)
    assert steps.x[-1] == pytest.approx(0.294)
    assert compute.x[-1] == pytest.approx(0.394)
    assert steps.error_x.array[0] == pytest.approx(4.3027 * 0.002 / 3**0.5, rel=1e-4)
    assert "order 3 is first with 0.394" in drawn("learning_ends").text
    assert "order 3 is first with 0.606" in drawn("learning_ends", "text").text


def test_compute_ends_at_the_same_flops() -> None:
    assert {round(trace.x[-1]) for trace in drawn("learning_compute").figure.data} == {10**6}


def test_seconds_are_those_of_the_cells_that_do_nothing_else() -> None:
    figure = drawn("learning_growth").figure
    right = [trace for trace in figure.data if trace.xaxis == "x2"]
    assert len(right) == len(growth._POWERS)
    assert right[0].y[0] == pytest.approx(0.01)
    assert drawn("learning_growth").columns["seconds"][0] == pytest.approx(0.01)
    untimed = [CellResult(cell.parameters, 0, cell.result) for cell in results("learning_growth")]
    assert all(trace.xaxis == "x" for trace in FIGURES["learning_growth"](untimed).figure.data)


@pytest.mark.parametrize("name", RUNS)
def test_language_models_are_compared_with_the_one_of_order_2(name: str) -> None:
    """The cells are those of two attentions, renamed to the language models."""
    cells = [
        replace(cell, parameters={**cell.parameters, "attention": attention_drawn})
        for attention_drawn, attention in zip(LAYERED, ("linear elu", "order 3"), strict=True)
        for cell in results(name, "text")
        if cell.parameters["attention"] == attention
    ]
    drawing = FIGURES[name](cells)
    if name == "learning_ends":
        assert list(drawing.figure.data[0].text) == list(LAYERED)
        assert drawing.text.endswith("and four layers of order 2 has 0.796.")
    else:
        assert [trace.name for trace in drawing.figure.data] == list(LAYERED)
    if name == "learning_compute":
        assert "one of four layers of order 2." in drawing.text
    assert len(drawing.text) < 330


def test_joins_are_drawn_by_facts() -> None:
    (guesses,) = drawn("join_guessing").figure.data
    assert (list(guesses.x), list(guesses.y)) == ([2, 8, 32], pytest.approx([1 / 2, 1 / 5, 1 / 17]))
    traces = {trace.name: trace for trace in drawn("join_longer").figure.data}
    assert list(traces) == list(JOINING)
    assert list(traces["order 3, both norms"].x) == [8, 16, 24]
    assert list(traces["order 3, both norms"].y) == pytest.approx([0.9, 0.8, 0.73])
    assert "order 3, both norms has 0.73" in drawn("join_longer").text


def test_joins_are_drawn_by_rate_and_time() -> None:
    name = "order 3, both norms"
    rates, time = ({trace.name: trace for trace in drawn(figure).figure.data} for figure in ("join_rates", "join_time"))
    assert list(rates) == list(time) == list(JOINING_ALIKE)
    assert (list(rates[name].x), list(rates[name].y)) == ([0.002, 0.01], pytest.approx([0.65, 0.73]))
    assert list(time[name].x) == pytest.approx([0, 10 * 0.0112, 20 * 0.0112])
    assert "order 3, both norms has 0.730" in drawn("join_time").text


def test_joins_are_drawn_by_stage() -> None:
    traces = {trace.name: trace for trace in drawn("join_stages").figure.data}
    assert list(traces) == list(JOINING)
    assert list(traces["order 3, both norms"].x) == [8, 16, 32, 64]
    assert list(traces["order 3, both norms"].y) == pytest.approx([0.0, 0.11, 0.22, 0.33])
    assert "among 64 facts" in drawn("join_stages").text
    assert "order 3, both norms 0.33" in drawn("join_stages").text


def test_layer_settings_are_drawn_by_rate_and_lead() -> None:
    rates = {trace.name: trace for trace in drawn("layer_rates").figure.data}
    assert set(rates) == set(LAYERS)
    assert list(rates["order 3"].x) == pytest.approx([1.995] * 3)
    assert list(rates["order 3"].y) == pytest.approx([1.99] * 3)
    assert "0.01 has the smaller loss in 21 of 21 cases" in drawn("layer_rates").text
    leads = {trace.name: trace for trace in drawn("layer_leads").figure.data}
    assert set(leads) == {*LAYERS} - {"order 3"}
    assert list(leads["order 3, scale 1/d"].y) == pytest.approx([0.1] * 3)
    assert "18 of 18 are significant" in drawn("layer_leads").text


def test_the_radius_gives_the_stated_share() -> None:
    assert "R = 4 reaches n = 54" in drawn("recall_radius").text
    assert "at most 0.25 nats" in drawn("learning_roads").text
