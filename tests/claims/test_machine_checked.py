"""The theorems of `proofs/` agree with the ledger, as far as this can be checked without Coq."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from proofs.statements import FOLDER, RECORD, source_files, statements, theorems, without_comments
from separatrix.claims.ledger import claims
from separatrix.claims.machine_checked import PROOFS, proofs_of
from separatrix.claims.verdicts import recalled, records
from separatrix.report.claim_parts import statement
from separatrix.report.markup import tag
from separatrix.report.typeset import typeset
from separatrix.studies import load
from tests.native.test_exponential import source

load()
CLAIMS = {claim.id: claim for claim in claims()}
FILES = source_files()


def test_every_file_is_compiled() -> None:
    assert sorted(FILES) == sorted(FOLDER.glob("*.v"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_proof_is_left_out(file: Path) -> None:
    """`Print Assumptions` would list the axioms too, but only if Coq is installed."""
    text = without_comments(file.read_text("utf-8"))
    left_out = re.findall(r"\b(Admitted|admit|Abort|Axioms?|Parameters?|Conjecture|bypass_check)\b", text)
    assert left_out == []
    assert len(re.findall(r"^Proof\b", text, re.MULTILINE)) == len(re.findall(r"\bQed\.", text))


def test_the_table_lists_every_theorem() -> None:
    in_files = {(f"proofs/{file.name}", name) for file in FILES for name in theorems(file)}
    listed = [(proof.file, proof.theorem) for proof in PROOFS]
    assert len(listed) == len(set(listed))
    assert set(listed) == in_files


@pytest.mark.parametrize("theorem", [proof.theorem for proof in PROOFS if proof.claim])
def test_a_theorem_is_named_after_its_claim(theorem: str) -> None:
    (proof,) = (proof for proof in PROOFS if proof.theorem == theorem)
    assert proof in proofs_of(CLAIMS[proof.claim].id)
    assert theorem.startswith(re.sub(r"[^a-z0-9]", "_", proof.claim))


def test_the_statements_are_those_of_the_record() -> None:
    recorded = json.loads(RECORD.read_text("utf-8"))
    assert statements() == recorded, (
        "A statement of proofs/, or what the ledger says of its claim, has changed: compare the two, "
        "then run python -m proofs.statements."
    )


def test_the_report_names_the_theorem_and_its_file() -> None:
    html = str(statement(recalled(CLAIMS["kronecker/lemma-d.6"], records()), tag))
    for proof in proofs_of("kronecker/lemma-d.6"):
        assert f"{proof.theorem} ({proof.file})" in html
    assert "Coq" not in str(statement(recalled(CLAIMS["kronecker/lemma-b.1"], records()), tag))


def test_a_changed_statement_is_detected(tmp_path: Path) -> None:
    original = FOLDER / "ErrorPropagation.v"
    changed = tmp_path / original.name
    changed.write_text(original.read_text("utf-8").replace("<= B ^ 3", "<= B ^ 2"), "utf-8")
    assert theorems(original).keys() == theorems(changed).keys()
    assert theorems(original)["kronecker_lemma_d_3"] != theorems(changed)["kronecker_lemma_d_3"]


@pytest.mark.parametrize("name", ["float", "double"])
def test_the_coefficients_are_those_of_the_kernels(name: str) -> None:
    text = (FOLDER / "ExponentialCoefficients.v").read_text("utf-8")
    literals = re.search(rf"Definition {name}_coefficients : list Q :=\s*\[(.*?)\]%Q", text, re.DOTALL)[1]
    coefficients = tuple(Fraction(int(a), int(b)) for a, b in re.findall(r"(\d+) # (\d+)", literals))
    assert coefficients == source(name).coefficients


def test_formulas_are_typeset():
    """The report shows these sentences, and raises an error for a formula that it cannot typeset."""
    for proof in PROOFS:
        typeset(proof.proves, lambda name, *children, **attributes: name)
