"""The claims on text: their cells and results name the text."""

from __future__ import annotations

import platform

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.claims.verdicts import Judgement, difference
from separatrix.errors import ArgumentError
from separatrix.studies.learning import polynomial, text
from separatrix.studies.learning.runs import RECORDED_TEXT, learned_text
from separatrix.studies.learning.tasks.text import digest
from tests.studies.cells import claims_of

OURS = claims_of(text, polynomial)


def test_a_run_on_text_names_the_text_and_the_python_that_brought_it() -> None:
    parameters = {"size": [4], "attention": "order 2", "steps": 1, "compute_steps": 1, "batch": 2, "points": 4}
    result = learned_text(text=digest(), **parameters, seed=1)
    assert result["python"] == platform.python_version()
    assert result["step"] == [0, 1]
    for experiment in (learned_text, polynomial.both_text):
        arguments = {name: value for name, value in parameters.items() if name in experiment.hints}
        with pytest.raises(ArgumentError, match=r"text: expected the SHA-256 of this Python's text, [0-9a-f]{64}, got"):
            experiment(text="another", **arguments, seed=1)


def test_cells_on_text_name_the_text() -> None:
    for id, claim in OURS.items():
        texts = {cell.arguments["text"] for cell in claim.cells() if "text" in cell.experiment}
        assert texts == ({digest()} if "text" in id or id.endswith("polynomial-longer") else set())


def run(attention: str, seed: int, loss: float, read: str) -> CellResult:
    parameters = {"text": read, "attention": attention, "steps": 1, "compute_steps": 1}
    result = {"step": [1], "loss": [loss], "accuracy": [0.5], "parameters": 9, "step_flops": 1.0, "python": "3.99.1"}
    return CellResult(parameters, seed, result)


@pytest.mark.parametrize(("read", "told"), [(RECORDED_TEXT, True), ("0123", False)])
def test_a_verdict_is_compared_with_the_record_of_its_own_text(read: str, told: bool) -> None:
    """A significant lead of order 3 over order 2 differs from the record, but only for the recorded text."""
    claim = OURS["does-it-learn/text-every-attention"]
    losses = {"order 2": 3.0, "order 3": 2.0}
    cells = [run(name, seed, loss + 0.01 * seed, read) for name, loss in losses.items() for seed in (1, 2, 3)]
    finding = claim.check(cells)
    assert finding.verdict is Verdict.FAILS_AS_PRINTED
    assert finding.comparable is told
    assert finding.numbers["SHA-256 of the text"] == read
    assert finding.numbers["Python of the text"] == "3.99.1"
    assert finding.note == ("" if told else "The recorded verdict is of another text.")
    recorded = {claim.id: Verdict.HOLDS}
    assert (difference(Judgement(claim, finding, (), 0.0), recorded, "full") is not None) is told
