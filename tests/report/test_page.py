from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs
from typer.testing import CliRunner

from separatrix import report
from separatrix.claims.ledger import Claim, Finding, Verdict, claims
from separatrix.claims.verdicts import Judgement, judge
from separatrix.lab import Store, StoreError
from separatrix.report import write_report
from separatrix.report.claim_parts import MARKS, called, css_class, statement
from separatrix.report.claim_section import KEY_DIGITS
from separatrix.report.errata_and_provenance import provenance
from separatrix.report.evidence import CellFacts, Entry
from separatrix.report.links import link, place
from separatrix.report.markup import Html, inert, join, table, tag
from separatrix.report.packing import unpacked
from separatrix.report.page import page
from separatrix.report.panel import panel
from tests.lab.app import app
from tests.lab.experiments import number
from tests.report.standin import FIGURES, HOSTILE, THEME, Fake, declare, judged, lines, plane, written


class Reader(HTMLParser):
    """The elements of a page, each with its attributes, its own text and that of its descendants."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.feed(text)

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes), []))
        if name not in ("meta", "input", "br", "img"):
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, name: str) -> None:
        assert self.elements[self.open.pop()][0] == name, "an element is closed by another one's end"

    def handle_data(self, data: str) -> None:
        for i in self.open:
            self.elements[i][2].append(data)

    def all(self, name: str, **wanted: str) -> list[tuple[dict[str, str | None], str]]:
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in wanted.items()}
        return [
            (attributes, "".join(text))
            for element, attributes, text in self.elements
            if element == name and wanted.items() <= attributes.items()
        ]

    def text(self, name: str, **wanted: str) -> str:
        ((_, text),) = self.all(name, **wanted)
        return text


@pytest.fixture(scope="module")
def path(standins, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page") / "results")


@pytest.fixture(scope="module")
def reader(path: Path) -> Reader:
    return Reader(path.read_text("utf-8"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "results") as created:
        yield created


def test_the_page_is_one_file_that_names_no_other(path: Path, reader: Reader) -> None:
    assert unpacked(reader.text("script", id="plotly")) == get_plotlyjs()
    assert not reader.open
    for name, attributes, _ in reader.elements:
        assert name not in ("link", "iframe", "img", "object", "embed", "base", "video", "audio")
        assert "src" not in attributes
        assert not any(key.startswith("on") for key in attributes), f"<{name}> would run a text as a script"
        assert re.match(r"#|\.\./", attributes.get("href") or "#"), attributes["href"]
    assert len(reader.all("script")) == 2 + 1 + 3  # Plotly and our script; the templates; the figures


def test_every_link_inside_the_page_has_its_target(reader: Reader) -> None:
    ids = [attributes["id"] for _, attributes, _ in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"][1:] for attributes, _ in reader.all("a") if attributes["href"].startswith("#")}
    assert targets <= set(ids)
    labels = {label for _, attributes, _ in reader.elements if (label := attributes.get("aria-labelledby"))}
    assert labels
    assert labels <= set(ids)


def test_every_claim_is_in_its_paper_with_its_verdict(reader: Reader) -> None:
    rows = reader.all("article", data_paper="kronecker") + reader.all("article", data_paper="selection")
    verdicts = ["holds", "fails as printed", "holds corrected", "holds asymptotically", "illustrated"]
    assert [attributes["data-verdict"] for attributes, _ in rows] == [*verdicts, "not run here", "undecided", "holds"]
    for (attributes, text), claim in zip(rows, claims(), strict=True):
        assert attributes["id"] == claim.id
        assert claim.where in text
        article = reader.text("article", id=claim.id)
        assert all(words in article for words in (claim.where, claim.says, claim.command, attributes["data-verdict"]))


def test_the_evidence_has_numbers_and_intervals(reader: Reader) -> None:
    article = reader.text("article", id="kronecker/lemma-1")
    assert all(
        words in article
        for words in ("largest error1.25⋅10\N{MINUS SIGN}13", "cases12", "rate0.50.4 to 0.6 at 99.9%", "float64")
    )


def cells_told(reader: Reader, id: str) -> str:
    """The cells that the article of a claim lists."""
    names = [name for name, _, _ in reader.elements]
    start = next(i for i, (_, attributes, _) in enumerate(reader.elements) if attributes.get("id") == id)
    end = names.index("article", start + 1) if "article" in names[start + 1 :] else len(names)
    blocks = [attributes for name, attributes, _ in reader.elements[start:end] if name == "pre"]
    return "\n".join(unpacked(block["data-packed"] or "") for block in blocks if "data-packed" in block)


def test_every_cell_key_is_listed_with_its_parameters(reader: Reader) -> None:
    for claim in claims():
        words = cells_told(reader, claim.id)
        for cell in claim.cells():
            assert f"{cell.key[:KEY_DIGITS]}  seed {cell.seed}  {cell.parameters}" in words
    assert '"when":1}  failed' in cells_told(reader, "selection/theorem-7")
    assert '"steps":5}  not run' in cells_told(reader, "selection/theorem-6")


def test_figures_are_drawn_only_from_complete_results(reader: Reader) -> None:
    waits = reader.text("article", id="selection/theorem-6")
    assert "1 figure will be drawn here once all of the cells are done" in waits
    assert len(reader.all("div", class_="plot")) == 5
    for attributes, _ in reader.all("div", class_="plot"):
        assert reader.text("figcaption", id=attributes["aria-labelledby"]).strip()
    packed = reader.all("script", class_="drawing")
    drawings = {attributes["id"]: json.loads(unpacked(text)) for attributes, text in packed}
    figures = [drawings[f"drawing-{attributes['data-drawing']}"]["drawing"] for attributes, _ in reader.all("figure")]
    assert [figure["data"][0]["type"] for figure in figures] == ["scatter", "scatter", "scatter", "heatmap", "bar"]
    assert len(drawings) == 3, "what several claims show is there once"
    assert all("template" not in figure["layout"] for figure in figures)
    assert json.loads(reader.text("script", id="theme"))["layout"]["font"] == {"color": "#777777", "size": 13}


def test_the_data_of_a_figure_is_a_download(reader: Reader) -> None:
    files = [attributes["data-file"] for attributes, _ in reader.all("button", class_="data")]
    assert len(files) == 5
    assert files[0] == "kronecker-lemma-1-lines.csv"
    saved = [json.loads(unpacked(text))["csv"] for _, text in reader.all("script", class_="drawing")]
    assert list(csv.reader(io.StringIO(saved[0]))) == [["seed", HOSTILE], *([str(i), f"{i + 1}.0"] for i in range(5))]
    assert saved[2] == "n\nä\n<\n"


def test_the_errata_come_from_the_ledger(reader: Reader) -> None:
    section = reader.text("section", id="errata")
    for claim in claims("kronecker"):
        for slip in claim.errata:
            assert f"Printed{slip.printed}Right{slip.right}Why{slip.why}" in section
    assert "How to Capture" in section
    assert "Transformers" not in section


def test_a_claim_shows_the_code_that_a_definition_is_and_its_earlier_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("separatrix.claims.ledger._REGISTRY", {})
    history = ["Until then $n < 4$ was asked.", "Then five."]
    declare("kronecker", "Definition 1", Verdict.HOLDS, defines=["separatrix.tensor_attention"], history=history)
    (claim,) = claims()
    html = "".join(statement(Judgement(claim, claim.judged([]), (), 0.0), tag))
    assert "<code>separatrix.tensor_attention</code>" in html
    assert "Rules that were changed after results had been seen:" in html
    assert "<li>Then five.</li>" in html
    assert claim.judged([]).verdict is Verdict.DEFINED


def test_provenance_names_the_origin_and_date_of_results(path: Path, reader: Reader) -> None:
    section = reader.text("section", id="provenance")
    with Store.open(path.parent) as store:
        (origin,) = {record.origin for record in store.records()}
    facts = json.loads(origin)
    assert {"separatrix", "git", "torch", "cpu", "host"} <= facts.keys()
    for name, value in facts.items():
        assert f"{name}{value or 'unknown'}" in section
    assert len(re.findall(r"tests\.number, version 1511?\d{4}-\d\d-\d\dT", section)) == 5
    assert "tests.walk, version 121" in section


def test_results_of_two_machines_are_distinguished(standins) -> None:
    origins = [json.dumps({"git": None, "host": host}) for host in ("ours", "<theirs>")]
    cells = [number.cell(seed=seed, x=0.0) for seed in range(5)]
    times = [None, 60.0, 0.0, 120.0, 180.0]
    declared = [
        CellFacts(cell.key, cell, "done" if i else None, 1.5, times[i], origins[i % 2] if i else None)
        for i, cell in enumerate(cells)
    ]
    judgement = Judgement(claims()[0], Finding(Verdict.NOT_RUN), tuple(cell.key for cell in cells), 6.0, missing=1)
    text = provenance([Entry(judgement, tuple(declared), ())], 240.0, origins[0])
    reader = Reader(text)
    assert "written at 1970-01-01T00:04:00Z on the machine and with the software of origin 1" in text
    assert [title for _, title in reader.all("h4")] == ["Origin 1, of 2 cells", "Origin 2, of 2 cells"]
    assert "gitunknownhost<theirs>" in reader.text("section")
    rows = [text for _, text in reader.all("tr")][1:]
    assert rows == [
        "Lemma 1tests.number, version 1221970-01-01T00:01:00Z to 1970-01-01T00:02:00Z3.0 s",
        "Lemma 1tests.number, version 1211970-01-01T00:00:00Z to 1970-01-01T00:03:00Z3.0 s",
    ]


def test_parts_of_one_place_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("separatrix.claims.ledger._REGISTRY", {})
    declare("kronecker", "Lemma 9", Verdict.HOLDS)
    declare("kronecker", "Lemma 9", Verdict.HOLDS, part="the sharper bound")
    assert [called(claim) for claim in claims()] == ["Lemma 9", "Lemma 9: the sharper bound"]


def test_a_verdict_that_is_not_the_recorded_one_is_marked(reader: Reader) -> None:
    ((_, unlike),) = reader.all("details", class_="differs")
    assert unlike == (
        "1 verdict not as recordedTheorem 5: illustrated, and holds is recorded. A conditional lower bound; its "
        "reduction ran."
    )
    marked = [attributes["id"] for attributes, _ in reader.all("article") if "data-unlike" in attributes]
    assert marked == ["kronecker/theorem-5"]
    assert "Not as recorded: illustrated, and holds is recorded." in reader.text("article", id="kronecker/theorem-5")
    assert reader.text("p", class_="differs").startswith("Not as recorded")


def test_claims_without_a_record_are_marked(standins, store: Store) -> None:
    reader = Reader(page(judged(store), store, FIGURES, THEME, store.folder / "report.html", {}))
    assert "7 verdicts not as recorded" in reader.text("details", class_="differs")
    assert "holds, and no verdict is recorded." in reader.text("article", id="kronecker/lemma-1")


def test_the_map_has_a_tile_for_every_claim_that_leads_to_it(reader: Reader) -> None:
    ids = {attributes["id"] for _, attributes, _ in reader.elements if "id" in attributes}
    tiles = [(attributes, text) for attributes, text in reader.all("a") if "tile" in (attributes.get("class") or "")]
    assert [attributes["href"] for attributes, _ in tiles] == [f"#{claim.id}" for claim in claims()]
    first, second = tiles[:2]
    assert first[0]["class"] == "tile holds"
    assert first[0]["title"] == first[0]["aria-label"] == "Lemma 1: holds"
    assert first[1] == "✓ Lem 1"
    assert second[0]["class"] == "tile fails-as-printed"
    targets = [attributes["href"][1:] for attributes, _ in reader.all("a") if attributes["href"].startswith("#")]
    assert {claim.id for claim in claims()} <= set(targets) <= ids


def test_a_paper_says_how_many_claims_and_errata_it_has(reader: Reader) -> None:
    assert [text for _, text in reader.all("p", class_="counted")] == ["5 claims, 2 errata", "3 claims"]


def test_a_finding_leads_with_its_figure_or_says_why_not(reader: Reader) -> None:
    section = reader.text("section", id="findings")
    assert "A finding in a lineAnd in a sentence.Lemma 1 ✓ holds" in section
    assert "Of no claim on the page" not in section
    lacks = (
        "The results in this folder do not show this finding. The verdict from them is “not run here”; "
        "the finding was made with the verdict “holds”. Of 1 cell"
    )
    assert lacks in section
    (sketch,) = reader.all("svg")
    assert sketch[0]["class"] == "sketch"
    caption = reader.text("figcaption", id="highlight-kronecker-lemma-1-lines-words")
    assert caption == "y grows by one with each seed."


def test_a_figure_has_its_height_before_it_is_drawn(reader: Reader) -> None:
    assert [attributes["style"] for attributes, _ in reader.all("div", class_="plot")] == ["min-height: 450px"] * 5
    tall = panel("tall", lambda cells: Fake(go.Figure(layout={"height": 700}), "Words.", {}), [])
    assert tall.height == 700


def test_texts_stay_texts(path: Path, reader: Reader) -> None:
    assert path.read_text("utf-8").count('<script>document.title = "broken"') == 0
    assert reader.text("title") == "Separatrix: what the papers claim, and what holds"
    article = reader.text("article", id=next(claim.id for claim in claims("kronecker") if claim.where == HOSTILE))
    assert article.count(HOSTILE) >= 7


def test_the_page_says_so_where_there_is_nothing(store: Store) -> None:
    text = page([], store, {}, THEME, store.folder / "report.html", {})
    assert "No claims are recorded yet." in text
    assert "No claim shows a misprint." in text


def test_a_figure_that_is_unknown_or_breaks_is_named(standins, store: Store) -> None:
    judgements = [judgement for judgement in judged(store) if judgement.claim.id == "kronecker/lemma-1"]
    where = store.folder / "report.html"
    with pytest.raises(
        TypeError, match="claim kronecker/lemma-1 names the unknown figure 'lines'; the figures are plane"
    ):
        page(judgements, store, {"plane": plane}, THEME, where, {})
    with pytest.raises(KeyError) as caught:
        page(judgements, store, {"lines": plane}, THEME, where, {})
    assert caught.value.__notes__ == ["This happened in the figure 'lines' of the claim kronecker/lemma-1."]
    with pytest.raises(TypeError, match="the figure 'mute' has no text alternative"):
        panel("mute", lambda cells: Fake(go.Figure(), " ", {}), [])


def test_a_check_that_broke_is_shown_with_its_traceback(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr("separatrix.claims.ledger._REGISTRY", {})
    declare("kronecker", "Lemma 9", Verdict.HOLDS_CORRECTED, figures=["lines"])  # the claim has no erratum
    reader = Reader(page(judged(store), store, FIGURES, THEME, store.folder / "report.html", {}))
    assert "errata and a proof say whether it is corrected" in reader.text("details", class_="problem")
    assert not reader.all("div", class_="plot")


@pytest.fixture
def own_figures(standins, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report draws the figures of the test claims."""
    monkeypatch.setattr("separatrix.report.figures.FIGURES", FIGURES)


def test_the_report_is_written_next_to_the_store(own_figures, store: Store) -> None:
    judgements = judged(store)
    path = write_report(judgements, store)
    assert path == store.folder / "report.html"
    articles = Reader(path.read_text("utf-8")).all("article")
    assert [attributes["id"] for attributes, _ in articles] == [claim.id for claim in claims()]
    written = write_report(
        [written for written in judgements if written.claim.paper == "selection"], store, "selection"
    )
    assert written == store.folder / "report-selection.html"
    alone = Reader(written.read_text("utf-8"))
    assert alone.text("h1").startswith("Transformers Provably Learn Sparse Token Selection")
    assert [attributes["id"] for attributes, _ in alone.all("article")] == [claim.id for claim in claims("selection")]
    assert sorted(file.name for file in store.folder.glob("*.draft")) == []


def test_nothing_is_run_for_the_report(own_figures, store: Store) -> None:
    write_report([judge(claim, store) for claim in claims()], store)
    assert store.counts() == {}


def test_an_old_report_survives_a_failed_one(own_figures, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.folder / "report.html"
    path.write_text("the old one")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="the disk is full"):
        write_report([], store)
    assert path.read_text() == "the old one"
    assert sorted(file.name for file in store.folder.glob("*.draft")) == []


def test_a_page_without_figures_has_no_library_that_draws(own_figures, store: Store) -> None:
    unrun = [judge(claim, store) for claim in claims()]
    reader = Reader(write_report(unrun, store).read_text("utf-8"))
    assert [attributes.get("id") for attributes, _ in reader.all("script")] == ["theme", None]


def test_reproducing_one_claim_judges_and_draws_it_alone(
    own_figures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids: list[str] = []

    def watched(claim: Claim, store: Store) -> Judgement:
        ids.append(claim.id)
        return judge(claim, store)

    monkeypatch.setattr("separatrix.claims.verdicts.expected", lambda: {})
    monkeypatch.setattr("separatrix.claims.reproduce.judge", watched)
    (tmp_path / "report.html").write_text("the page of all claims")
    command = ["reproduce", "--store", str(tmp_path), "--in-process", "--only", "kronecker/lemma-1"]
    done = CliRunner().invoke(app, command)
    assert ids == ["kronecker/lemma-1"]
    assert f"The report: {(tmp_path / 'report-only.html').as_uri()}" in done.stdout
    reader = Reader((tmp_path / "report-only.html").read_text("utf-8"))
    assert [attributes["id"] for attributes, _ in reader.all("article")] == ["kronecker/lemma-1"]
    assert (tmp_path / "report.html").read_text() == "the page of all claims"


def test_reproduce_writes_the_report(own_figures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("separatrix.claims.verdicts.expected", lambda: {})
    done = CliRunner().invoke(app, ["reproduce", "--store", str(tmp_path), "--in-process"])
    assert f"The report: {(tmp_path / 'report.html').as_uri()}" in done.stdout
    assert len(Reader((tmp_path / "report.html").read_text("utf-8")).all("article")) == 8


def test_code_is_linked_from_a_page_in_the_same_checkout_only(root: Path, tmp_path: Path) -> None:
    here = f"tests/report/standin.py:{lines.__code__.co_firstlineno}"
    assert str(place(lines)) == here
    assert link(lines, tmp_path / "report.html") == f"<code>{here}</code>"
    inside = link(lines, root / "results" / "report.html")
    assert inside == f'<a href="../tests/report/standin.py"><code>{here}</code></a>'
    assert str(place(number.function)).startswith("tests/lab/experiments.py:")
    assert str(place(go.Figure.add_scatter)).startswith("plotly.graph_objs._figure:")


def test_markup_escapes_foreign_text() -> None:
    assert tag("td", "<b>", data_x='">', class_="<") == '<td data-x="&quot;&gt;" class="&lt;">&lt;b&gt;</td>'
    assert tag("p", Html("<b>"), hidden=False, id=None) == "<p><b></p>"
    assert join(["<", tag("br")], "&") == "&lt;&amp;<br>"
    with pytest.raises(TypeError, match="<br> holds nothing"):
        tag("br", "x")
    assert inert('{"a":"</script>"}') == '<script type="application/json">{"a":"\\u003c/script>"}</script>'
    with pytest.raises(ValueError, match="zip"):
        table(["a", "b"], [["1"]])


def test_every_verdict_has_its_own_mark_and_a_corrected_one_the_colour_of_corrections() -> None:
    style = (Path(report.__file__).parent / "assets" / "page.css").read_text("utf-8")
    assert len({MARKS[verdict] for verdict in Verdict}) == len(Verdict)
    corrected = [verdict for verdict in Verdict if verdict.is_corrected]
    assert len(corrected) == 2
    for verdict in corrected:
        for kind in ("badge", "tile"):
            assert f".{kind}.{css_class(verdict)} {{ background: var(--fixed-back); color: var(--fixed); }}" in style
