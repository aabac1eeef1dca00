"""Every claim has wrong neighbours or says why not; proofs are in the documents.

`test_registry`, `test_full_runs` and `tests/studies` test that checks reject the neighbours.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

from separatrix import studies
from separatrix.claims import ledger
from separatrix.claims.ledger import CellResult, Claim, Finding, Neighbour, Verdict, claim
from tests.lab.experiments import number

studies.load()
CLAIMS = dict(ledger._REGISTRY)


def test_a_claim_has_neighbours_or_says_why_not() -> None:
    for id, registered in CLAIMS.items():
        assert bool(registered.neighbours) != bool(registered.alone), id
        statements = [neighbour.says for neighbour in registered.neighbours]
        assert len(statements) == len(set(statements)), f"{id}: the evidence names a neighbour by what it says"
        arguments = list(inspect.signature(registered.check).parameters)[1:]
        for neighbour in registered.neighbours:
            assert neighbour.constants, id
            assert neighbour.constants.keys() <= set(arguments), f"{id}: a neighbour differs by arguments of the check"


TURNING = {"turned", "better", "worse", "strong", "weak", "compared", "together", "nearer", "stays", "carrying"}
"""Arguments by which a neighbour reverses a comparison or exchanges two parts; rejecting such a neighbour shows
little.
"""


def test_some_neighbour_is_near() -> None:
    for id, registered in CLAIMS.items():
        if registered.neighbours:
            assert any(not neighbour.constants.keys() <= TURNING for neighbour in registered.neighbours), id


def test_a_neighbour_that_is_not_rejected_leaves_the_claim_undecided(empty: dict[str, Claim]) -> None:
    """Example: numbers below 3 show that they are below 4, but not that no smaller bound holds."""
    neighbours = (Neighbour("below 2", {"bound": 2.0}), Neighbour("below 5", {"bound": 5.0}))

    @claim(
        paper="kronecker",
        where="Lemma 1",
        says="The numbers are below 4.",
        cells=lambda: [number.cell(seed=0, x=1.0)],
        neighbours=neighbours,
    )
    def below(cells: Sequence[CellResult], bound: float = 4.0) -> Finding:
        return ledger.holds_if(all(cell.result["y"] < bound for cell in cells), {"bound": bound})

    finding = below.judged([CellResult({"x": 1.0}, 0, {"y": 3.0})])
    assert finding.verdict is Verdict.UNDECIDED
    assert finding.numbers["rejected: below 2"] == "yes"
    assert finding.numbers["rejected: below 5"] == "no"
    assert "below 5" in finding.note
    assert [below.accepts(other, [CellResult({"x": 1.0}, 0, {"y": 3.0})]) for other in neighbours] == [False, True]


def test_a_claim_with_a_proof_whose_check_holds_is_proved(empty: dict[str, Claim]) -> None:
    @claim(
        paper="kronecker",
        where="Lemma 1",
        says="It is.",
        cells=lambda: [number.cell(seed=0, x=1.0)],
        proof="Lemma 1",
        alone="It is a test.",
    )
    def positive(cells: Sequence[CellResult]) -> Finding:
        return ledger.holds_if(cells[0].result["y"] > 0, {"y": 1.0})

    assert positive.judged([CellResult({}, 0, {"y": 1.0})]).verdict is Verdict.PROVED
    assert positive.judged([CellResult({}, 0, {"y": -1.0})]).verdict is Verdict.FAILS_AS_PRINTED


def test_a_definition_whose_check_holds_is_defined_here(empty: dict[str, Claim]) -> None:
    @claim(
        paper="kronecker",
        where="Definition 1",
        says="It is.",
        cells=lambda: [number.cell(seed=0, x=1.0)],
        defines=["separatrix.tensor_attention"],
        alone="It is a test.",
    )
    def positive(cells: Sequence[CellResult]) -> Finding:
        return ledger.holds_if(cells[0].result["y"] > 0, {"y": 1.0})

    assert positive.judged([CellResult({}, 0, {"y": 1.0})]).verdict is Verdict.DEFINED
    assert positive.judged([CellResult({}, 0, {"y": -1.0})]).verdict is Verdict.FAILS_AS_PRINTED


def test_the_objects_of_a_definition_exist() -> None:
    for id, registered in CLAIMS.items():
        for name in registered.defines:
            home, _, attribute = name.rpartition(".")
            assert callable(getattr(import_module(home), attribute, None)), f"{id}: there is no {name}"


def test_a_claim_that_is_not_reproduced_lists_its_settings(empty: dict[str, Claim]) -> None:
    def not_found(cells: Sequence[CellResult]) -> Finding:
        return Finding(Verdict.NOT_REPRODUCED)

    options = {"paper": "kronecker", "says": "It is.", "cells": lambda: [number.cell(seed=0, x=1.0)]}
    with pytest.raises(TypeError, match="lists the settings"):
        claim(where="Lemma 1", **options)(not_found).judged([])  # type: ignore[arg-type]
    listed = claim(where="Lemma 2", chosen=["The threshold is 0.4."], **options)(not_found)  # type: ignore[arg-type]
    assert listed.judged([]).verdict is Verdict.NOT_REPRODUCED


def test_proofs_are_in_the_documents(root: Path) -> None:
    headings = {
        line.lstrip("# ").strip()
        for line in (root / "docs/derivations/proofs.md").read_text("utf-8").splitlines()
        if line.startswith("#")
    }
    proofs = {claim.proof for claim in CLAIMS.values() if claim.proof}
    assert proofs
    assert proofs <= headings
