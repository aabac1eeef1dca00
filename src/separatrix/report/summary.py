"""The head of the page: how many claims have which verdict, and the table of all of them with its filter."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims import PAPERS
from separatrix.claims.counts import Count, count
from separatrix.claims.ledger import Verdict
from separatrix.lab.wording import duration, many
from separatrix.report.claim_parts import MARKS, badge, called, css_class, legend, spelled
from separatrix.report.evidence import Entry
from separatrix.report.markup import Html, tag
from separatrix.report.typeset import typeset


def mark(verdict: Verdict) -> Html:
    """A verdict's mark alone, for lists; its name is there for those who do not see it."""
    return tag(
        "span", MARKS[verdict], role="img", aria_label=verdict.value, title=verdict.value,
        class_=f"mark {css_class(verdict)}",
    )  # fmt: skip


def summary(entries: Sequence[Entry]) -> Html:
    """The counts, the filter, the table, and what the verdicts mean."""
    if not entries:
        return tag("section", tag("h2", "Summary"), tag("p", "No claims are recorded yet."), id="summary")
    counted = count((one.judgement.claim, one.judgement.verdict) for one in entries)
    heading = tag("h2", "Summary")
    frame = tag("div", _table(entries), class_="wide")
    none = tag("p", "No claim matches.", id="no-match", hidden=True)
    meanings = tag("details", tag("summary", "What the verdicts mean"), legend(tag))
    top = [heading, tag("p", str(counted)), _unlike(entries), _filter(entries, counted)]
    return tag("section", *top, frame, none, meanings, id="summary")


def _unlike(entries: Sequence[Entry]) -> Html | None:
    """The verdicts that are not the recorded ones, if there are any."""
    unlike = [one for one in entries if one.difference]
    if not unlike:
        return None
    items = [
        tag("li", tag("a", called(one.judgement.claim), href=f"#{one.judgement.claim.id}"), f": {one.difference}")
        for one in unlike
    ]
    said = f"{many(len(unlike), 'verdict')} not as recorded"
    return tag("details", tag("summary", said), tag("ul", *items), class_="differs", open=len(unlike) <= 10)


def _filter(entries: Sequence[Entry], count: Count) -> Html:
    """The filter of the table, which the page's script shows and runs."""
    choices = [_choice("all", "all", count.claims, checked=True)]
    choices += [_choice(one.value, css_class(one), count.verdicts[one]) for one in Verdict if one in count.verdicts]
    if unlike := sum(one.difference is not None for one in entries):
        choices.append(_choice("not as recorded", "differs", unlike))
    papers = list(dict.fromkeys(one.judgement.claim.paper for one in entries))
    options = [
        tag("option", "all papers", value=""),
        *(tag("option", f"{name}: {PAPERS[name].title}", value=name) for name in papers),
    ]
    return tag(
        "form",
        tag("fieldset", tag("legend", "Verdict"), *choices, class_="choices"),
        tag("label", "Paper ", tag("select", *options, name="paper")),
        tag("label", "Text ", tag("input", type="search", name="text", autocomplete="off")),
        tag("button", "Clear", type="reset"),
        tag("output", f"{many(len(entries), 'claim')}", id="shown", aria_live="polite"),
        id="filter",
        role="search",
        aria_label="Filter the table of verdicts",
        hidden=True,
    )


def _choice(text: str, kind: str, count: int, *, checked: bool = False) -> Html:
    button = tag("input", type="radio", name="verdict", value="" if kind == "all" else text, checked=checked)
    return tag("label", button, tag("span", f"{text} ", tag("b", f"{count:,}"), class_=f"badge {kind}"))


def _table(entries: Sequence[Entry]) -> Html:
    names = ("Claim", "Verdict", "Found", "Cells", "Time")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    caption = tag("caption", "Every claim with its verdict")
    return tag("table", caption, head, tag("tbody", *map(_row, entries)), id="verdicts", class_="stacked")


def _row(entry: Entry) -> Html:
    one, claim = entry.judgement, entry.judgement.claim
    have = f"{len(one.keys) - one.missing - one.failed:,} of {len(one.keys):,}"
    evidence = [f"{name}: {spelled(value)}" for name, value in one.finding.numbers.items()]
    found = "; ".join(evidence) or one.finding.note
    return tag(
        "tr",
        tag(
            "th",
            tag("a", called(claim), href=f"#{claim.id}"),
            tag("span", *typeset(claim.says, tag), class_="says short"),
            tag("span", claim.paper, class_="of"),
            scope="row",
        ),
        tag(
            "td",
            badge(one.verdict, tag),
            tag("span", "not as recorded", class_="differs") if entry.difference else None,
            data_column="Verdict",
        ),
        tag(
            "td",
            tag("span", *typeset(found, tag), class_="short") if found else None,
            data_column="Found",
            class_="found",
        ),
        tag("td", have, data_column="Cells", class_="number"),
        tag("td", duration(one.seconds), data_column="Time", class_="number"),
        data_verdict=one.verdict.value,
        data_unlike=entry.difference is not None,
        data_paper=claim.paper,
        data_text=claim.id,
    )
