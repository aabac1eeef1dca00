"""The evidence page, the README's table and the figure have the ledger's recorded numbers, and no others."""

from __future__ import annotations

import copy
import doctest
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs._ext import evidence, evidence_figure, joins_figure
from docs._ext.made import refreshed
from separatrix.claims.ledger import claims
from separatrix.claims.verdicts import expected
from separatrix.commands.app import app
from separatrix.errors import SeparatrixError
from separatrix.lab.store import Store
from separatrix.studies import load
from separatrix.studies.learning.runs import RECORDED_TEXT
from separatrix.studies.learning.tasks.import_graph import RECORDED_GRAPH
from tests.docs.pages import DOCS, FENCE

EVIDENCE = DOCS / "guide" / "evidence.md"

QUICK = "beyond/does-it-learn/recall-by-hand"


@pytest.fixture(scope="module", autouse=True)
def _ledger() -> None:
    load("beyond")


def test_docstrings() -> None:
    done = doctest.testmod(evidence)
    assert done.attempted
    assert not done.failed


def test_the_records_match_the_current_claims() -> None:
    """The verdicts are those of the ledger, and the numbers those of the claims' current cells."""
    recorded, verdicts = evidence.recorded(), expected()
    assert tuple(recorded) == evidence.CLAIMS
    for claim in claims(only=evidence.CLAIMS):
        assert recorded[claim.id]["verdict"] == verdicts[claim.id]
        cells = [cell.arguments for cell in claim.cells()]
        if all(
            cell.get("text", RECORDED_TEXT) == RECORDED_TEXT and cell.get("graph", RECORDED_GRAPH) == RECORDED_GRAPH
            for cell in cells
        ):
            assert recorded[claim.id]["cells"] == evidence.fingerprint(claim), "run the claim, and docs._ext.evidence"


def test_the_figure_is_drawn_from_the_records() -> None:
    for drawn in (evidence_figure, joins_figure):
        assert drawn.FIGURE.read_text() == drawn.svg(), "python -m tests.docs.refresh --made"


def test_a_page_with_another_number_is_stale() -> None:
    text = EVIDENCE.read_text()
    assert refreshed(text) == text
    parts = re.findall(r"^<!-- made: evidence [\w-]+ -->$.*?^<!-- end -->$", text, re.MULTILINE | re.DOTALL)
    assert parts
    for part in parts:
        numbers = list(re.finditer(r"\d+\.\d\d+", part))
        for number in numbers[:: max(len(numbers) // 5, 1)]:
            other = f"{part[: number.start()]}9.99{part[number.end() :]}"
            assert refreshed(text.replace(part, other)) == text


@pytest.mark.parametrize(
    ("table", "id", "name"),
    [
        ("learned", evidence.TRIPLES, "accuracy at equal steps, order 3"),
        ("learned", evidence.RECALL, "accuracy at equal compute, order 3, R = 4"),
        ("learned", evidence.TEXT, "loss at equal compute, order 2"),
        ("learned", evidence.PRODUCTS[evidence.RECALL], "accuracy at equal steps, product of two order 2"),
        ("joins", evidence.EIGHT, "8 facts: accuracy at equal steps, order 3, both norms"),
        ("joins", evidence.LONGER, "accuracy among 24 facts, order 3, both norms"),
        ("imports", evidence.IMPORTS, "8 facts: accuracy at equal CPU time, order 3, both norms"),
        ("layers", evidence.BOTH_NORMS, "accuracy at equal steps, order 3, qk_norm"),
        ("bounds", evidence.GROWTH, "order 3, R = 2: flops below order 3 from n"),
        ("language-model", evidence.COMPUTE, "loss at equal compute, four layers of order 2"),
        ("short", evidence.TRIPLES, "accuracy at equal compute, order 2"),
        ("short", evidence.COMPUTE, "loss at equal compute, four layers, the last of order 3"),
        ("sizes", evidence.SIZES, "n = 8, M = 11: lead of order 3"),
        ("short", evidence.PRODUCTS[evidence.RECALL], "accuracy at equal compute, product of two order 2"),
        ("stages", evidence.STAGES_LEADS[0], "64 facts: accuracy after 100 steps, order 3, both norms"),
        ("stages", evidence.STAGES_LEADS[1], "64 facts: accuracy after 100 steps, order 2, two layers, both norms"),
        ("layers", evidence.FURTHER, "accuracy at equal steps, orders 2 and 3 mixed"),
    ],
)
def test_another_run_would_give_another_table(table: str, id: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = copy.deepcopy(evidence.recorded())
    number = changed[id]["numbers"][name]
    changed[id]["numbers"][name] = [x + 0.07 for x in number] if isinstance(number, list) else number + 7
    before = evidence.evidence(table)
    monkeypatch.setattr(evidence, "recorded", lambda: changed)
    assert evidence.evidence(table) != before


def test_numbers_are_in_the_tables_only() -> None:
    """The prose of the page has no decimal numbers except those of theorems, because nothing would check them."""
    text = FENCE.sub("", EVIDENCE.read_text())
    prose = re.sub(r"^<!-- made: .*?^<!-- end -->$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = prose.replace("Theorems 1.3 and 1.4", "")
    assert "<!-- made" not in prose
    assert re.findall(r"\d\.\d", prose) == []


def test_the_results_of_a_store_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "CLAIMS", (QUICK,))
    store, path = tmp_path / "store", tmp_path / "evidence.json"
    with (
        Store.create(store) as empty,
        pytest.raises(SeparatrixError, match="Run `separatrix reproduce --profile quick"),
    ):
        evidence.write(empty, path)
    assert not path.exists()
    ran = CliRunner().invoke(app, ["reproduce", "--only", QUICK, "--store", str(store), "--in-process"])
    assert ran.exit_code == 0, ran.output
    with Store.open(store) as full:
        evidence.write(full, path)
    written = json.loads(path.read_text())[QUICK]
    assert written["verdict"] == "holds"
    assert written["numbers"]["wrong by one head of order k"] == 0
    assert written["cells"] == evidence.fingerprint(claims(only=[QUICK])[0])
    path.write_text(json.dumps({QUICK: {**written, "verdict": "kept"}}))
    with Store.create(tmp_path / "other") as empty:
        evidence.write(empty, path)  # the record of the same cells is kept
    assert json.loads(path.read_text())[QUICK]["verdict"] == "kept"


def test_without_a_store_the_commands_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert evidence._main([]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(evidence.CLAIMS)
    assert all(line.startswith("separatrix reproduce --profile full --only beyond/") for line in lines)
