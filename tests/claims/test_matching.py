"""The claims on matching: their verdicts, what would change them, and their figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from separatrix.claims import ledger, load
from separatrix.claims.beyond import matching_training
from separatrix.claims.kronecker import matching
from separatrix.claims.ledger import Found, Interval, Verdict
from separatrix.claims.verdicts import expected
from separatrix.lab import results
from separatrix.lab.registry import named
from separatrix.report.figures import draw

load("kronecker")
load("beyond")
CONSTRUCTED = ["kronecker/section-1/pairs", "kronecker/section-1/triples", "kronecker/section-1/pairs-cannot"]
TRAINED = "beyond/triples-by-training"


@cache
def ran(id: str) -> tuple[Found, ...]:
    def result(experiment: str, seed: int, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        text, files = results.encode(named(experiment)(seed=seed, **arguments))
        return results.decode(text, lambda digest: files[digest])

    return tuple(
        Found(cell.arguments, cell.seed, result(cell.experiment, cell.seed, cell.arguments))
        for cell in ledger._REGISTRY[id].cells()
    )


def changed(found: Sequence[Found], where: Callable[[Found], bool], **to: Any) -> list[Found]:
    at = next(i for i, one in enumerate(found) if where(one))
    assert to.keys() <= found[at].result.keys()
    return [*found[:at], replace(found[at], result={**found[at].result, **to}), *found[at + 1 :]]


@pytest.mark.parametrize("id", CONSTRUCTED)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    finding = ledger._REGISTRY[id].check(ran(id))
    assert finding.verdict is expected()[id], finding
    assert finding.numbers


@pytest.mark.parametrize(
    ("part", "to"),
    [
        ("pairs", {"wrong": 1}),
        ("triples", {"wrong": 1}),
        ("triples", {"sum": 101}),
        ("triples", {"sum": None}),
        ("pairs-cannot", {"wrong": 1}),
        ("pairs-cannot", {"rank": 1}),
        ("pairs-cannot", {"numbers_sent": 5}),
        ("pairs-cannot", {"error": 1e-3}),
    ],
)
def test_one_wrong_result_changes_the_verdict(part: str, to: dict[str, Any]) -> None:
    id = f"kronecker/section-1/{part}"
    found = changed(ran(id), lambda one: to.keys() <= one.result.keys(), **to)
    assert ledger._REGISTRY[id].check(found).verdict is Verdict.FAILS_AS_PRINTED


def test_the_experiments_see_a_head_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs turned round; labels that are all no."""
    outputs = matching.match_outputs
    assert matching.every_instance(order=3, modulus=6, n=3, dtype="float64", seed=0)["wrong"] == 0
    monkeypatch.setattr(matching, "match_outputs", lambda *args, **more: 1 - outputs(*args, **more))
    assert matching.every_instance(order=3, modulus=6, n=3, dtype="float64", seed=0)["wrong"] > 0
    monkeypatch.undo()
    monkeypatch.setattr(matching, "match_labels", lambda x, *_: torch.zeros_like(x, dtype=torch.bool))
    long = matching.long_instances(order=3, modulus=50, n=8, frequencies=1, dtype="float64", kind="adversarial", seed=0)
    assert long["wrong"] > 0
    assert matching.disjointness(m=2, seed=0)["wrong"] > 0


def run(order: int, seed: int, last: float, *, modulus: int = 7, parameters: int = 100) -> Found:
    result = {"step": [0, 10], "accuracy": [0.5, last], "loss": [0.7, 0.1], "parameters": parameters}
    return Found({"order": order, "task": 3, "n": 8, "modulus": modulus}, seed, result)


def both(third: Sequence[float], second: Sequence[float], **more: int) -> list[Found]:
    return [
        *(run(3, seed, last, **more) for seed, last in enumerate(third)),
        *(run(2, seed, last, **more) for seed, last in enumerate(second)),
    ]


GOOD = both([0.98, 0.99, 1.0], [0.6, 0.62, 0.7])


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (GOOD, Verdict.HOLDS),
        ([*GOOD, *both([0.5, 0.52, 0.51], [0.51, 0.5, 0.52], modulus=99)], Verdict.HOLDS),
        ([*GOOD, *both([0.5, 0.52, 0.51], [0.9, 0.91, 0.92], modulus=99)], Verdict.FAILS_AS_PRINTED),
        (both([0.5, 0.52, 0.51], [0.51, 0.5, 0.52]), Verdict.UNDECIDED),
        (both([0.99, 0.98, 1.0], [1.0, 0.97, 0.99]), Verdict.UNDECIDED),
        (
            [*GOOD[:3], *(replace(one, result={**one.result, "parameters": 101}) for one in GOOD[3:])],
            Verdict.FAILS_AS_PRINTED,
        ),
    ],
)
def test_the_verdict_on_training(found: list[Found], verdict: Verdict) -> None:
    for id in (TRAINED, f"{TRAINED}/over-n-and-m"):
        assert ledger._REGISTRY[id].check(found).verdict is verdict


def test_runs_are_paired_by_seed() -> None:
    """In whatever order they are found."""
    forwards, backwards = (ledger._REGISTRY[TRAINED].check(found).numbers for found in (GOOD, GOOD[::-1]))
    assert forwards == backwards
    lead = forwards["n = 8, M = 7: lead of order 3"]
    assert isinstance(lead, Interval)
    assert lead == matching_training.paired([0.98, 0.99, 1.0], [0.6, 0.62, 0.7])
    assert lead.value == pytest.approx(0.35)


def test_the_cells_of_training_are_fair() -> None:
    """Both orders in every setting, with the same seeds and everything else equal."""
    for id in (TRAINED, f"{TRAINED}/over-n-and-m"):
        kinds: dict[int, list[object]] = {2: [], 3: []}
        for cell in ledger._REGISTRY[id].cells():
            rest = {name: value for name, value in cell.arguments.items() if name != "order"}
            kinds[cell.arguments["order"]].append((cell.seed, rest))
        assert kinds[2] == kinds[3]


def test_the_drawn_triple_is_ringed() -> None:
    drawing = draw("triple_found", ran("kronecker/section-1/triples"))
    heat, triple, blank = drawing.figure.data
    one = next(one for one in ran("kronecker/section-1/triples") if "weights" in one.result)
    tokens, M = one.result["tokens"], one.parameters["modulus"]
    for x, y in ((triple.x[0], triple.y[0]), (triple.x[6], triple.y[6])):
        j1, j2 = int(y + 0.5), int(x + 0.5)
        assert (tokens[0] + tokens[j1] + tokens[j2]) % M == 0
        assert heat.z[j1][j2] == max(max(row) for row in heat.z)
    assert (blank.x[0], blank.y[0]) == (len(tokens) - 0.5, len(tokens) - 0.5)
    assert sum(drawing.columns["weight"]) == pytest.approx(1.0)
    assert "= 100" in triple.name


def test_training_is_drawn() -> None:
    curves = draw("match_training_curves", GOOD)
    assert [trace.name for trace in curves.figure.data] == ["order 2, n = 8, M = 7", "order 3, n = 8, M = 7"]
    assert curves.figure.data[1].y[-1] == pytest.approx(0.99)
    assert list(curves.figure.data[1].error_y.array)[-1] == pytest.approx(0.01)
    ends = draw("match_accuracy", GOOD)
    assert [len(trace.y) for trace in ends.figure.data] == [3, 1, 3, 1]
    assert "0.99 against 0.64" in ends.text


def test_the_bound_of_entries_is_drawn() -> None:
    drawing = draw("match_entry_bound", ran("kronecker/section-1/triples"))
    assert len(drawing.figure.data) == 5
    first = drawing.figure.data[0]
    growth = first.y[-1] / first.y[-4]
    assert growth == pytest.approx(8 ** (2 / 3), rel=1e-3)
