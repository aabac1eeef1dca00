"""The claims on triples by training: fair cells, results that change their verdicts, and their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from separatrix.claims import ledger
from separatrix.claims.ledger import CellResult, Interval, Verdict
from separatrix.errors import ArgumentError
from separatrix.hardness.match_training import MatchModel, MatchTraining
from separatrix.report.figures import draw
from separatrix.studies.learning.mechanisms import ProductAttention
from separatrix.studies.matching.training import PRODUCT, trained, trained_product
from separatrix.studies.seeds import paired

TRAINED = "beyond/triples-by-training"
PRODUCTS = f"{TRAINED}/over-n-and-m-product-of-two-order-2"
PRODUCT_CELL = {"attention": PRODUCT, "task": 3}


def run(order: int, seed: int, last: float, *, modulus: int = 7, parameters: int = 100) -> CellResult:
    result = {"step": [0, 10], "accuracy": [0.5, last], "loss": [0.7, 0.1], "parameters": parameters}
    return CellResult({"order": order, "task": 3, "n": 8, "modulus": modulus}, seed, result)


def both(third: Sequence[float], second: Sequence[float], **more: int) -> list[CellResult]:
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
            [*GOOD[:3], *(replace(cell, result={**cell.result, "parameters": 101}) for cell in GOOD[3:])],
            Verdict.FAILS_AS_PRINTED,
        ),
    ],
)
def test_the_verdict_on_training(found: list[CellResult], verdict: Verdict) -> None:
    for id in (TRAINED, f"{TRAINED}/over-n-and-m"):
        assert ledger._REGISTRY[id].check(found).verdict is verdict


def test_runs_are_paired_by_seed() -> None:
    """The summary does not depend on the order of the results."""
    forwards, backwards = (ledger._REGISTRY[TRAINED].check(cells).numbers for cells in (GOOD, GOOD[::-1]))
    assert forwards == backwards
    lead = forwards["n = 8, M = 7: lead of order 3"]
    assert isinstance(lead, Interval)
    assert lead == paired([0.98, 0.99, 1.0], [0.6, 0.62, 0.7])
    assert lead.value == pytest.approx(0.35)


def test_the_cells_of_training_are_fair() -> None:
    """Both attentions in every setting, with the same seeds and all other parameters equal."""
    for id in (TRAINED, f"{TRAINED}/over-n-and-m", PRODUCTS):
        kinds: dict[object, list[object]] = {}
        for cell in ledger._REGISTRY[id].cells():
            rest = dict(cell.arguments)
            attention = rest.pop("order", None) or rest.pop("attention")
            kinds.setdefault(attention, []).append((cell.seed, rest))
        assert kinds.keys() == ({3, PRODUCT} if id == PRODUCTS else {2, 3})
        assert kinds.popitem()[1] == kinds.popitem()[1]


def test_order_3_is_compared_with_the_product() -> None:
    check = ledger._REGISTRY[PRODUCTS].check
    products = [replace(cell, parameters={**PRODUCT_CELL, "n": 8, "modulus": 7}) for cell in GOOD[3:]]
    assert check([*GOOD[:3], *products]).verdict is Verdict.HOLDS
    assert check([*GOOD[:3], *products], compared=("order 3", PRODUCT)).verdict is Verdict.FAILS_AS_PRINTED
    assert check([*GOOD[:3], *products]).numbers["n = 8, M = 7: lead of order 3"] == paired(
        [0.98, 0.99, 1.0], [0.6, 0.62, 0.7]
    )


def test_the_product_has_the_weights_and_the_inputs_of_order_3() -> None:
    how = {"task": 3, "n": 5, "modulus": 5, "steps": 2, "batch": 4, "evaluate_every": 1, "seed": 1}
    third, product = trained(order=3, **how), trained_product(attention=PRODUCT, **how)
    assert product["parameters"] == third["parameters"]
    assert product["loss"][0] != third["loss"][0]
    run = MatchTraining(3, 3, 5, 5, steps=2, batch=4, seed=1, evaluate_every=1)
    model = MatchModel(run, torch.Generator().manual_seed(0), ProductAttention)
    assert isinstance(model.attention, ProductAttention)
    with pytest.raises(ArgumentError, match="attention"):
        trained_product(attention="order 3", **how)


def test_training_is_drawn() -> None:
    curves = draw("match_training_curves", GOOD)
    assert [trace.name for trace in curves.figure.data] == ["order 2, n = 8, M = 7", "order 3, n = 8, M = 7"]
    assert curves.figure.data[1].y[-1] == pytest.approx(0.99)
    assert list(curves.figure.data[1].error_y.array)[-1] == pytest.approx(0.01)
    ends = draw("match_accuracy", GOOD)
    assert [len(trace.y) for trace in ends.figure.data] == [3, 1, 3, 1]
    assert "0.99 against 0.64" in ends.text
    products = [replace(cell, parameters={**PRODUCT_CELL, "n": 8, "modulus": 7}) for cell in GOOD[3:]]
    text = draw("match_training_curves", [*GOOD[:3], *products]).text
    assert "order 3 is at 0.99 to 0.99, product of two order 2 is at 0.64 to 0.64." in text
