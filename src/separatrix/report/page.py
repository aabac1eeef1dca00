"""The page: one self-contained HTML file.

Plotly and the page's own script are inlined. A content security policy allows these two by their hashes, and no other
script and no network request.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from separatrix.claims import PAPERS, ledger, verdicts
from separatrix.claims.ledger import Verdict
from separatrix.claims.verdicts import Judgement
from separatrix.files import write_whole
from separatrix.lab.faults import plainly
from separatrix.lab.provenance import origin
from separatrix.lab.store import Store
from separatrix.report.claim_section import paper_section
from separatrix.report.errata_and_provenance import errata, provenance
from separatrix.report.evidence import Entry, entry
from separatrix.report.highlights import HIGHLIGHTS, Highlight, highlights
from separatrix.report.markup import Html, inert, tag
from separatrix.report.packing import packed
from separatrix.report.panel import Figures, drawings
from separatrix.report.summary import summary

_ASSETS = Path(__file__).with_name("assets")
_TITLE = "Separatrix: what the papers claim, and what holds"


def write_report(judgements: Sequence[Judgement], store: Store, part: str | None = None) -> Path:
    """Write the page of these judgements to the folder of results, and return its path. No cell is run.

    Args:
        judgements: The claims of the page, with their verdicts.
        store: The store whose cells are drawn; the page is written into its folder, whole or not at all.
        part: None if the judgements are of all claims, which gives ``report.html``. Otherwise the page is called
            ``report-PART.html``, so that it does not replace the page of all claims; `part` may be the name of a paper.
    """
    from separatrix.report.figures import FIGURES
    from separatrix.report.theme import THEME

    path = store.folder / (f"report-{part}.html" if part else "report.html")
    title = f"{PAPERS[part].title}: what holds" if part in PAPERS else _TITLE
    text = page(judgements, store, FIGURES, THEME, path, verdicts.expected(), HIGHLIGHTS, title)
    with plainly(path):
        write_whole(path, text.encode())
    return path


def page(
    judgements: Sequence[Judgement],
    store: Store,
    figures: Figures,
    theme: Any,
    path: Path,
    recorded: Mapping[str, Verdict],
    chosen: Sequence[Highlight] = (),
    title: str = _TITLE,
) -> str:
    """The page's text, for a file at `path`.

    `figures` are the functions that draw the figures by name, and `theme` is their Plotly template. Verdicts that
    differ from those in `recorded` are marked. The highlights `chosen` are at the top.
    """
    from plotly.io import to_json  # type: ignore[import-untyped]

    place = {claim.id: i for i, claim in enumerate(ledger.claims())}
    papers = list(PAPERS)
    ordered = sorted(
        judgements,
        key=lambda judgement: (papers.index(judgement.claim.paper), place.get(judgement.claim.id, len(place))),
    )
    entries = [entry(judgement, store, figures, recorded) for judgement in ordered]
    panels = [panel for claim_entry in entries for panel in claim_entry.panels]
    plotly, packed_plotly = _plotly() if panels else ("", None)
    script = Html((_ASSETS / "page.js").read_text("utf-8"))
    parts = _sections(entries, chosen, path)
    body = tag(
        "body",
        tag("a", "Skip to the verdicts", href="#summary", class_="skip"),
        tag("header", tag("h1", title), _contents(entries, led=parts[0] is not None)),
        tag("main", *parts),
        inert(to_json(theme.to_plotly_json(), validate=False), id="theme"),
        *drawings(panels),
        tag("script", packed_plotly, type="text/plain", id="plotly") if packed_plotly else None,
        tag("script", script),
    )
    return f"<!DOCTYPE html>\n{tag('html', _head(title, [plotly, script] if plotly else [script]), body, lang='en')}\n"


@cache
def _plotly() -> tuple[str, Html]:
    """Plotly's script, plain and compressed, cached for the process.

    It is most of a page, and the page's script decompresses it when there are figures to draw.
    """
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    script: str = get_plotlyjs()
    return script, Html(packed(script))


def _sections(entries: Sequence[Entry], chosen: Sequence[Highlight], path: Path) -> list[Html | None]:
    papers = [
        paper_section(name, list(group), path)
        for name, group in groupby(entries, lambda claim_entry: claim_entry.judgement.claim.paper)
    ]
    last = [errata(entries), provenance(entries, time.time(), origin())]
    return [highlights(chosen, entries), summary(entries), *papers, *last]


def _contents(entries: Sequence[Entry], *, led: bool) -> Html:
    names = dict.fromkeys(claim_entry.judgement.claim.paper for claim_entry in entries)
    links = {"findings": "Findings"} if led else {}
    links |= {"summary": "Map", **{name: name.capitalize() for name in names}}
    links |= {"errata": "Errata", "provenance": "Provenance"}
    items = [tag("li", tag("a", text, href=f"#{target}")) for target, text in links.items()]
    return tag("nav", tag("ul", *items), aria_label="Sections")


def _head(title: str, scripts: Sequence[str]) -> Html:
    hashes = [f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts]
    # Plotly adds styles and images to the page as it draws.
    policy = f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline'; img-src data: blob:"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html((_ASSETS / "page.css").read_text("utf-8"))),
    )
