"""The claims on matching: their verdicts, what would change them, and their figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from separatrix.claims import ledger, load
from separatrix.claims.kronecker import matching
from separatrix.claims.ledger import Found, Verdict
from separatrix.claims.verdicts import expected
from separatrix.lab import results
from separatrix.lab.registry import named
from separatrix.report.figures import draw

load("kronecker")
CONSTRUCTED = ["kronecker/section-1/pairs", "kronecker/section-1/triples", "kronecker/section-1/pairs-cannot"]


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


def test_the_bound_of_entries_is_drawn() -> None:
    drawing = draw("match_entry_bound", ran("kronecker/section-1/triples"))
    assert len(drawing.figure.data) == 5
    first = drawing.figure.data[0]
    growth = first.y[-1] / first.y[-4]
    assert growth == pytest.approx(8 ** (2 / 3), rel=1e-3)
