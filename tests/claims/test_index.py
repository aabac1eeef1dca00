"""The index of the ledger: the claims that `separatrix claims` lists without importing their modules."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from separatrix.claims import index
from separatrix.claims.index import INDEX, index_of, indexed_claims
from separatrix.claims.ledger import Claim, Erratum, Neighbour, Rank, claims
from separatrix.errors import ArgumentError
from separatrix.studies import load
from tests.claims.declared import declare


def test_the_index_is_that_of_the_ledger() -> None:
    load()
    assert INDEX.read_text("utf-8") == index_of(claims()), "`python -m tests.docs.refresh --made` writes it anew"


def test_the_index_restores_claims_without_their_code(monkeypatch, empty, tmp_path: Path) -> None:
    erratum = Erratum("a < b", "a ≤ b", "They may be equal.", "equal", rank=Rank.STATEMENT, at="Equation 2")
    declared = declare(
        errata=[erratum], neighbours=[Neighbour("zero", {})], history=["Once it was four."], chosen=["n = 5"]
    )
    other = declare("Definition 2", paper="selection", profile="full", defines=["separatrix.tensor_attention"])
    monkeypatch.setattr(index, "INDEX", tmp_path / "index.json")
    index.INDEX.write_text(index_of([declared, other]), "utf-8")
    texts = [field.name for field in fields(Claim) if field.name not in ("cells", "check", "neighbours")]
    for claim, read in zip([declared, other], indexed_claims(), strict=True):
        assert [getattr(read, name) for name in texts] == [getattr(claim, name) for name in texts]
        assert read.command == claim.command
        with pytest.raises(TypeError, match="has no code"):
            read.cells()
        with pytest.raises(TypeError, match="has no code"):
            read.judged([])
    assert [read.id for read in indexed_claims("selection")] == [other.id]
    with pytest.raises(ArgumentError, match="--paper: expected"):
        indexed_claims("phlogiston")
