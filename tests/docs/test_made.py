"""The generated parts of the pages."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from docs._ext.api_pages import api
from docs._ext.authors_pages import authors_errata, authors_findings, authors_summary
from docs._ext.cited_places import citing_files, places
from docs._ext.claim_code import PACKAGE, claim_files, library_files
from docs._ext.commands_page import commands
from docs._ext.errata_pages import (
    PAPERS_ORDER,
    anchors,
    called,
    command,
    errata_counts,
    errata_list,
    first_errata,
    wordings,
)
from docs._ext.fuzz_counts import COUNTS, fuzz_counts
from docs._ext.ledger_pages import paper_table
from docs._ext.made import filled, refreshed
from docs._ext.markdown import marked, plain, slug
from docs._ext.public_names import PAGES, links, names
from separatrix.claims import PAPERS
from separatrix.claims.counts import count_recorded
from separatrix.claims.errata import FIRST, first_slips, slips
from separatrix.claims.ledger import Rank, claims
from separatrix.claims.verdicts import records
from separatrix.studies import load
from tests.docs.pages import DOCS, MADE


@pytest.fixture(scope="module", autouse=True)
def _ledger() -> None:
    load()


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_has_a_row_with_its_verdict(paper: str) -> None:
    rows = [line for line in paper_table(paper).splitlines() if line.startswith("|")]
    recorded = records()
    for one in claims(paper):
        (row,) = [row for row in rows if f"`{one.id}`<br>" in row]
        assert f"**{recorded[one.id].verdict}**{plain(recorded[one.id].suffix)}" in row
        assert marked(one.says) in row
        assert all(f"`{file}`" in row for file in claim_files(one))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_place_has_a_row(paper: str) -> None:
    table = paper_table(paper)
    claimed = {one.where for one in claims(paper)}
    for place in places(paper):
        assert f"| {plain(place.where)} | {marked(place.says)} |" in table
        assert place.where not in claimed, "it has a claim by now"
        assert place.see is None or place.see in claimed
        assert all((PACKAGE / file).exists() for file in place.code)


def test_a_table_has_four_columns_in_every_row() -> None:
    for paper in PAPERS:
        rows = [line for line in paper_table(paper).splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


def test_every_erratum_is_listed_once() -> None:
    """The most important errata come first; the others are sorted by paper, below the heading of their rank."""
    pages = {paper: errata_list(paper) for paper in PAPERS_ORDER}
    first = first_errata()
    assert len(re.findall(r"^### \d+\. ", first, re.MULTILINE)) == len(FIRST) == 15
    names = [slip.name for slip in first_slips()]
    for slip in slips():
        page = first if slip.name in names else pages[slip.claim.paper]
        seen = f"To see it: `{command(claim for claim, _ in slip.places)}`\n"
        assert seen in page
        first_place: dict[str, str] = {}
        for claim, erratum in slip.places:
            for name, text in (("Printed", erratum.printed), ("Right", erratum.right), ("Why", erratum.why)):
                known = next((known for known in first_place if text != known and text.startswith(known)), text)
                whole = f"*{name}:* {marked(text)}"
                shortened = f"*{name}:* As in {first_place.get(known)}.{marked(text.removeprefix(known))}"
                assert whole in page or shortened in page
                if len(text) > 80 and name != "Printed":
                    first_place.setdefault(text, erratum.at or called(claim))
    numbers = re.findall(r"^#{3,4} (\d+)\. ", first + "".join(pages.values()), re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, len(slips()) + 1))


def test_a_correction_is_not_repeated_at_every_place() -> None:
    slip = next(slip for slip in slips() if any(claim.id == "selection/corollary-e.16" for claim, _ in slip.places))
    right = slip.places[0][1].right
    assert len(slip.places) == 5
    assert all(erratum.right == right for _, erratum in slip.places)
    assert "\n".join(wordings(slip)).count(marked(right)) == 1


def test_errata_are_counted_by_paper_and_rank() -> None:
    *_, total = [line for line in errata_counts().splitlines() if line.startswith("|")]
    cells = [int(cell) for cell in total.split("|")[2:-1]]
    assert cells == [*(sum(slip.rank is rank for slip in slips()) for rank in Rank), len(slips())]
    assert len(slips()) < sum(len(one.errata) for one in claims())


@pytest.mark.parametrize("paper", PAPERS_ORDER)
def test_the_authors_page_has_all_errata(paper: str) -> None:
    top, listed, found = authors_summary(paper), authors_errata(paper), authors_findings(paper)
    assert PAPERS[paper].title in top
    assert PAPERS[paper].version in top
    assert f"{count_recorded(paper).claims} claims: {count_recorded(paper).summary}." in top
    assert len(re.findall(r"^### ", listed, re.MULTILINE)) == len(slips(paper))
    recorded = records()
    for one in claims(paper):
        assert marked(one.says) in found
        assert all(marked(setting) in found for setting in one.chosen)
        assert (
            f": {recorded[one.id].verdict}{recorded[one.id].suffix}\n" in found
            or f"**{recorded[one.id].verdict}** (" in found
        )
    for slip in slips(paper):
        assert f"*Why:* {marked(slip.places[0][1].why)}" in listed


def test_the_authors_page_begins_with_the_most_important_errata() -> None:
    heads = re.findall(r"^### 1\. (.*)$", authors_errata("selection"), re.MULTILINE)
    assert heads[0].startswith("Lemma A.3")


def test_the_files_of_a_claim_are_those_its_experiments_call() -> None:
    (definition,) = claims(only=["kronecker/definition-1.5"])
    assert library_files(definition) == ["attention/operator.py", "attention/reference.py"]
    assert claim_files(definition) == ["claims/kronecker/definition_1_5.py"]


def test_citations_are_of_the_right_paper() -> None:
    assert "attention/near_linear/sums.py" in citing_files("kronecker")["Lemma C.3"]
    assert "attention/linear.py" in citing_files("separation")["Definition C.1"]
    assert "attention/linear.py" not in citing_files("kronecker").get("Definition C.1", ())


def test_every_public_name_has_a_place_in_the_api() -> None:
    for page in PAGES:
        text = api(page)
        for one in names(page):
            full, module = re.escape(one.full), re.escape(one.module)
            directive = rf"^\.\. (auto(class|function):: {full}(\(.*)?|py:data:: {one.name}\n   :module: {module})$"
            assert re.search(directive, text, re.MULTILINE)


def test_the_api_begins_with_the_most_used_names() -> None:
    shown = [one.name for one in names("separatrix")]
    assert shown[:3] == ["tensor_attention", "certified_attention", "plan_attention"]
    assert names("nn")[0].name == "TensorAttention"


def test_no_public_name_is_forgotten() -> None:
    import separatrix as sx

    shown = {module for modules in PAGES.values() for module in modules}
    for name in sx.__all__:
        home = getattr(getattr(sx, name), "__name__", f"separatrix.{name}")
        inner = any(module == home or module.startswith(f"{home}.") for module in shown)
        assert inner or any(one.name == name for one in names("separatrix")) or name in ("__version__", "errors")
    assert {one.name for one in names("lab")} == set(import_module("separatrix.lab").__all__)


def test_a_bare_name_is_resolved_in_its_scope() -> None:
    assert links("separatrix.attention.streaming.state")["tensor_attention"] == "separatrix.tensor_attention"
    assert links("separatrix.selection.training")["train"] == "separatrix.selection.train"
    assert "train" not in links("separatrix.attention.streaming.state")


def test_commands_describe_themselves() -> None:
    text = commands()
    for one in ("separatrix reproduce", "separatrix store gc", "separatrix plan"):
        assert f"## {one}\n" in text
    assert "- `--only`: Only this claim" in text


def test_marks() -> None:
    assert filled("before\n<!-- made: notebook learning_to_select -->\nafter").startswith("before\n# ")
    with pytest.raises(KeyError, match="poem"):
        filled("<!-- made: poem -->")
    built = "<!-- made: notebook learning_to_select -->\nafter"
    committed = f"before\n<!-- made: paper kronecker -->\n<!-- end -->\n\n{built}"
    once = refreshed(committed)
    assert once.startswith("before\n<!-- made: paper kronecker -->\n\nJosh Alman, Zhao Song, *How to")
    cited = "[arXiv:2310.04064](https://arxiv.org/abs/2310.04064), 2023."
    assert once.endswith(f"*; {cited}\n\n<!-- end -->\n\n{built}")
    assert refreshed(once.replace("Alman", "Almond")) == once
    assert "Josh Alman" in filled(once)


@pytest.mark.parametrize("page", MADE, ids=lambda page: page.stem)
def test_the_committed_pages_match_the_source(page: Path) -> None:
    """The papers' tables, the errata and the commands can be read without a build, and are up to date."""
    text = page.read_text()
    assert text.count("<!-- made: ") == text.count("<!-- end -->") > 0
    assert refreshed(text) == text, "python -m tests.docs.refresh --made writes it anew"


def test_every_mark_is_filled_or_committed() -> None:
    for page in DOCS.rglob("*.md"):
        if page not in MADE:
            left = filled(page.read_text()) if "made:" in page.read_text() else ""
            assert "<!-- made" not in left, page


def test_links_to_the_errata_lead_to_their_headings() -> None:
    """GitHub and MyST make an anchor from a heading's letters, digits and hyphens, and number repeated ones."""
    taken: Counter[str] = Counter()
    there = set()
    for heading in re.findall(r"^#+ (.*)$", (DOCS / "errata.md").read_text(), re.MULTILINE):
        name = slug(heading)
        there.add(f"{name}-{taken[name]}" if taken[name] else name)
        taken[name] += 1
    link = re.compile(r"\]\(\.\./errata\.md#([^)]*)\)")
    linked = {(page.stem, target) for page in MADE for target in link.findall(page.read_text())}
    assert {target for _, target in linked} == {anchor for some in anchors().values() for anchor in some}
    assert {target for _, target in linked} <= there
    assert {page for page, _ in linked} == {"kronecker", "selection", "separation"}


def test_the_table_of_the_fuzz_is_that_of_the_file() -> None:
    """Every kind has a row, the rows add up, and no recorded case is broken."""
    head, rule, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in fuzz_counts().splitlines()]
    assert {len(row) for row in (head, rule, *rows)} == {7}
    recorded = json.loads(COUNTS.read_text())
    assert [row[0] for row in rows] == [*recorded["kinds"], "all"]
    for column in range(1, 5):
        *numbers, total = [int(row[column].replace(",", "")) for row in rows]
        assert total == sum(numbers)
    assert rows[-1][head.index("broken")] == "0"
    assert recorded["broken"] == []
    assert "1.0000" not in fuzz_counts()  # a number close to 1 is not rounded to 1
