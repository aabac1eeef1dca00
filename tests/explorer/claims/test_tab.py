"""The tab Claims: the ledger judged from a store, filtered, with an open claim."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from separatrix.claims.ledger import Verdict
from separatrix.claims.verdicts import Recorded
from separatrix.errors import ArgumentError
from separatrix.explorer.app import make_app
from separatrix.explorer.claims import judged_claims
from separatrix.explorer.claims import tab as claims_tab
from separatrix.explorer.claims.judged_claims import Shelf, chosen, counted
from separatrix.lab import Store
from tests.explorer.reader import components, reader, texts
from tests.explorer.shelved import SHELVED, declared, filled

LIST = '{"kind":"field","of":"claim","slides":"no","tab":"claims"}.options'


@pytest.fixture(scope="module", autouse=True)
def ledger_of_our_own():
    with declared():
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("claims") / "results")


@pytest.fixture
def visitor(store: Path):
    return reader(make_app(store, pages={"claims": claims_tab}).server.test_client())


def test_the_ledger_is_judged_from_the_store(store: Path) -> None:
    found = {judgement.claim.id: str(judgement.verdict) for judgement in Shelf(store).judgements()}
    assert found == SHELVED


def test_without_a_store_nothing_has_been_run(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "nothing")
    assert not shelf.exists
    assert {str(one.verdict) for one in shelf.judgements()} == {"not run here"}
    assert not any(judgement.rerun for judgement in shelf.judgements())
    assert not (tmp_path / "nothing").exists(), "looking made a folder"


def test_a_claim_that_was_not_rerun_shows_its_recorded_verdict(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"selection/figure-3": Recorded(Verdict.FAILS_AS_PRINTED, date(2026, 11, 15))}
    monkeypatch.setattr(judged_claims, "records", lambda: record)
    by_id = {judgement.claim.id: judgement for judgement in Shelf(store).judgements()}
    assert SHELVED["selection/figure-3"] == "not run here"
    assert by_id["selection/figure-3"].verdict is Verdict.FAILS_AS_PRINTED
    assert by_id["selection/figure-3"].finding.note == "Recorded verdict, found on 2026-11-15; not rerun here."
    assert [id for id, judgement in by_id.items() if not judgement.rerun] == ["selection/figure-3"]
    assert counted(list(by_id.values())).endswith("1 fails as printed. Rerun in this folder: 2 of 3.")


def test_the_ledger_is_judged_again_when_the_store_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(tmp_path / "results")
    first = shelf.judgements()
    assert shelf.judgements() is first
    filled(tmp_path / "results")
    second = shelf.judgements()
    assert {one.claim.id: str(one.verdict) for one in second} == SHELVED
    monkeypatch.setattr(Store, "open", None)  # known verdicts are not read again
    assert shelf.judgements() is second


@pytest.mark.parametrize(
    ("filter", "ids"),
    [
        (("all", "all", ""), list(SHELVED)),
        (("kronecker", "all", ""), ["kronecker/lemma-2"]),
        (("all", "holds", ""), ["separation/theorem-1"]),
        (("separation", "fails as printed", ""), []),
        (("all", "all", "GROWS seed"), ["separation/theorem-1"]),
        (("all", "all", "lemma-2"), ["kronecker/lemma-2"]),
        (("all", "all", "no-such-word"), []),
    ],
)
def test_the_filter(store: Path, filter: tuple[str, str, str], ids: list[str]) -> None:
    assert [judgement.claim.id for judgement in chosen(Shelf(store).judgements(), *filter)] == ids


def test_the_count(store: Path) -> None:
    judgements = Shelf(store).judgements()
    verdicts = "1 holds, 1 holds corrected, 1 is not run here"
    assert counted(judgements) == f"3 claims, 2 of them quick and 1 full: {verdicts}. Rerun in this folder: 2 of 3."
    assert counted([]) == "No claim matches."


def test_the_page_lists_and_opens(visitor) -> None:
    page = visitor.open("?tab=claims")
    assert [one["value"] for one in page[LIST]] == list(SHELVED)
    assert "What the verdicts mean" in texts(page["claim.children"])
    page = visitor.changed(verdict="holds corrected")
    assert [one["value"] for one in page[LIST]] == ["kronecker/lemma-2"]
    assert page["claims-count.children"] == "1 claim, quick: 1 holds corrected. Rerun in this folder: 1 of 1."
    opened = visitor.changed(claim="kronecker/lemma-2")["claim.children"]
    messages = texts(opened)
    for part in ("holds corrected", "largest", "Printed", "twice", "Right", "once", "tests/explorer/shelved.py:",
                 "separatrix reproduce --profile quick --only kronecker/lemma-2", "2 of 2 cells done"):  # fmt: skip
        assert part in messages
    graphs = [component for component in components(opened) if component["type"] == "Graph"]
    assert [len(graph["props"]["figure"]["data"][0]["x"]) for graph in graphs] == [2]
    assert "seed,y\n" in messages


def test_figures_wait_for_their_cells(visitor) -> None:
    visitor.open("?tab=claims")
    opened = visitor.changed(claim="selection/figure-3")["claim.children"]
    assert "1 figure will be drawn here once all of the cells are done." in texts(opened)
    assert "0 of 2 cells done" in texts(opened)
    assert not [component for component in components(opened) if component["type"] == "Graph"]


def test_without_a_store_the_page_says_what_to_run(tmp_path: Path) -> None:
    visitor = reader(make_app(tmp_path / "nothing", pages={"claims": claims_tab}).server.test_client())
    page = visitor.open("?tab=claims&claim=kronecker/lemma-2")
    assert "separatrix reproduce" in texts(page["claim.children"])
    count = "3 claims, 2 of them quick and 1 full: 3 are not run here. Rerun in this folder: 0 of 3."
    assert page["claims-count.children"] == count


@pytest.mark.parametrize("id", ["nothing/here", "../../etc/passwd", "<script>", "separation/theorem-"])
def test_an_unknown_claim_is_a_sentence(visitor, id: str) -> None:
    page = visitor.open(f"?tab=claims&claim={id}")
    assert page["claims-alert.children"].startswith("claim: expected the id of a claim in the list, got")
    with pytest.raises(ArgumentError, match="claim: expected"):
        Shelf(Path("nowhere")).judgement(id)


def test_a_broken_store_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"no database at all, but long enough to look at" * 50)
    visitor = reader(make_app(tmp_path, pages={"claims": claims_tab}).server.test_client())
    page = visitor.open("?tab=claims")
    assert "store.sqlite" in page["claims-list-alert.children"]
    assert "bug in Separatrix" not in page["claims-list-alert.children"]
