"""What the pages are filled with from the source."""

from __future__ import annotations

import json
import re
from importlib import import_module

import pytest

from docs._ext.api_pages import api
from docs._ext.cited_places import citing_files, places
from docs._ext.claim_code import PACKAGE, claim_files, library_files
from docs._ext.commands_page import commands
from docs._ext.fuzz_counts import COUNTS, fuzz_counts
from docs._ext.ledger_pages import errata_list, paper_table, plain
from docs._ext.made import filled
from docs._ext.public_names import PAGES, links, names
from separatrix.claims import PAPERS
from separatrix.claims.ledger import claims
from separatrix.claims.verdicts import expected
from separatrix.studies import load
from tests.docs.pages import DOCS


@pytest.fixture(scope="module", autouse=True)
def _ledger() -> None:
    load()


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_has_a_row_with_its_verdict(paper: str) -> None:
    rows = [line for line in paper_table(paper).splitlines() if line.startswith("|")]
    recorded = expected()
    for one in claims(paper):
        (row,) = [row for row in rows if f"`{one.id}`<br>" in row]
        assert f"**{recorded.get(one.id, 'undecided')}**" in row
        assert plain(one.says) in row
        assert all(f"`{file}`" in row for file in claim_files(one))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_place_has_a_row(paper: str) -> None:
    table = paper_table(paper)
    claimed = {one.where for one in claims(paper)}
    for place in places(paper):
        assert f"| {plain(place.where)} | {plain(place.says)} |" in table
        assert place.where not in claimed, "it has a claim by now"
        assert place.see is None or place.see in claimed
        assert all((PACKAGE / file).exists() for file in place.code)


def test_a_table_has_four_columns_in_every_row() -> None:
    for paper in PAPERS:
        rows = [line for line in paper_table(paper).splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_erratum_is_listed(paper: str) -> None:
    listed = errata_list(paper)
    for one in claims(paper):
        assert (one.command in listed.splitlines()) == bool(one.errata)
        for erratum in one.errata:
            assert all(f": {plain(text)}\n" in listed for text in (erratum.printed, erratum.right, erratum.why))


def test_the_files_of_a_claim_are_what_its_experiments_call() -> None:
    (definition,) = claims(only=["kronecker/definition-1.5"])
    assert library_files(definition) == ["attention/operator.py", "attention/reference.py"]
    assert claim_files(definition) == ["claims/kronecker/definitions.py"]


def test_citations_are_of_the_right_paper() -> None:
    assert "attention/polynomial/sums.py" in citing_files("kronecker")["Lemma C.3"]
    assert "attention/linear.py" in citing_files("separation")["Definition C.1"]
    assert "attention/linear.py" not in citing_files("kronecker").get("Definition C.1", ())


def test_every_public_name_has_a_place_in_the_api() -> None:
    for page in PAGES:
        text = api(page)
        for one in names(page):
            full, module = re.escape(one.full), re.escape(one.module)
            directive = rf"^\.\. (auto(class|function):: {full}(\(.*)?|py:data:: {one.name}\n   :module: {module})$"
            assert re.search(directive, text, re.MULTILINE)


def test_no_public_name_is_forgotten() -> None:
    import separatrix as sx

    shown = {module for modules in PAGES.values() for module in modules}
    for name in sx.__all__:
        home = f"separatrix.{name}"
        inner = any(module == home or module.startswith(f"{home}.") for module in shown)
        assert inner or any(one.name == name for one in names("separatrix")) or name in ("__version__", "errors")
    assert {one.name for one in names("lab")} == set(import_module("separatrix.lab").__all__)


def test_a_bare_name_means_what_it_means_in_its_room() -> None:
    assert links("separatrix.attention.streaming.state")["tensor_attention"] == "separatrix.tensor_attention"
    assert links("separatrix.selection.training")["train"] == "separatrix.selection.train"
    assert "train" not in links("separatrix.attention.streaming.state")


def test_commands_describe_themselves() -> None:
    text = commands()
    for one in ("separatrix reproduce", "separatrix store gc", "separatrix plan"):
        assert f"## {one}\n" in text
    assert "`--only`\n: Only this claim" in text


def test_marks() -> None:
    assert filled("before\n<!-- made: paper kronecker -->\nafter").startswith("before\nJosh Alman, Zhao Song, *How to")
    with pytest.raises(KeyError, match="poem"):
        filled("<!-- made: poem -->")


def test_every_comment_that_looks_like_a_mark_is_one() -> None:
    for page in DOCS.rglob("*.md"):
        left = filled(page.read_text()) if "made:" in page.read_text() else ""
        assert "<!-- made" not in left, page


def test_the_table_of_the_fuzz_is_that_of_the_file() -> None:
    """Every kind has a row, the rows add up, and no case that is recorded is broken."""
    head, rule, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in fuzz_counts().splitlines()]
    assert {len(row) for row in (head, rule, *rows)} == {7}
    recorded = json.loads(COUNTS.read_text())
    assert [row[0] for row in rows] == [*recorded["kinds"], "all"]
    for column in range(1, 5):
        *numbers, total = [int(row[column].replace(",", "")) for row in rows]
        assert total == sum(numbers)
    assert rows[-1][head.index("broken")] == "0"
    assert recorded["broken"] == []
    assert "1.0000" not in fuzz_counts()  # what is next to 1 is not rounded to it
