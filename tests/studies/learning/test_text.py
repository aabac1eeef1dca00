"""The claims on text: their cells and results name the text that was read."""

from __future__ import annotations

import platform

import pytest

from separatrix.errors import ArgumentError
from separatrix.studies.learning import polynomial, text
from separatrix.studies.learning.runs import learned_text
from separatrix.studies.learning.tasks.text import digest
from tests.studies.cells import claims_of

OURS = claims_of(text, polynomial)


def test_a_run_on_text_names_the_text_and_the_python_that_brought_it() -> None:
    parameters = {"size": [4], "attention": "order 2", "steps": 1, "compute_steps": 1, "batch": 2, "points": 4}
    result = learned_text(text=digest(), **parameters, seed=1)
    assert result["python"] == platform.python_version()
    assert result["step"] == [0, 1]
    for experiment in (learned_text, polynomial.both_text):
        given = {name: value for name, value in parameters.items() if name in experiment.hints}
        with pytest.raises(ArgumentError, match=r"text: expected the SHA-256 of this Python's text, [0-9a-f]{64}, got"):
            experiment(text="another", **given, seed=1)


def test_cells_on_text_name_the_text() -> None:
    for id, one in OURS.items():
        texts = {cell.arguments["text"] for cell in one.cells() if "text" in cell.experiment}
        assert texts == ({digest()} if "text" in id or id.endswith("polynomial-longer") else set())
