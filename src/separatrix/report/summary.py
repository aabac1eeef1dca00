"""The map of the papers, and the filter of the claims by verdict, paper and text."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims import PAPERS
from separatrix.claims.counts import Count, count
from separatrix.claims.ledger import Verdict
from separatrix.lab.wording import many
from separatrix.report.claim_parts import called, css_class, legend
from separatrix.report.evidence import Entry
from separatrix.report.markup import Html, tag
from separatrix.report.paper_map import paper_map


def summary(entries: Sequence[Entry]) -> Html:
    """The filter with the number of claims of each verdict, the meanings of the verdicts, and the map."""
    heading = tag("h2", "The papers, place by place")
    if not entries:
        return tag("section", heading, tag("p", "No claims are recorded yet."), id="summary")
    counted = count((entry.judgement.claim, entry.judgement.verdict) for entry in entries)
    none = tag("p", "No claim matches.", id="no-match", hidden=True)
    top = [tag("p", str(counted)), _unlike(entries), _filter(entries, counted)]
    return tag("section", heading, *top, legend(tag), none, paper_map(entries), id="summary")


def _unlike(entries: Sequence[Entry]) -> Html | None:
    """A list of the verdicts that differ from the recorded ones; None if there are none."""
    unlike = [entry for entry in entries if entry.difference]
    if not unlike:
        return None
    items = [
        tag("li", tag("a", called(entry.judgement.claim), href=f"#{entry.judgement.claim.id}"), f": {entry.difference}")
        for entry in unlike
    ]
    sentence = f"{many(len(unlike), 'verdict')} not as recorded"
    return tag("details", tag("summary", sentence), tag("ul", *items), class_="differs", open=len(unlike) <= 10)


def _filter(entries: Sequence[Entry], count: Count) -> Html:
    """The filter of the map and of the claims, which the page's script makes visible and applies."""
    choices = [_choice("all", "all", count.claims, checked=True)]
    choices += [
        _choice(verdict.value, css_class(verdict), count.verdicts[verdict])
        for verdict in Verdict
        if verdict in count.verdicts
    ]
    if unlike := sum(entry.difference is not None for entry in entries):
        choices.append(_choice("not as recorded", "differs", unlike))
    papers = list(dict.fromkeys(entry.judgement.claim.paper for entry in entries))
    options = [
        tag("option", "all papers", value=""),
        *(tag("option", f"{name}: {PAPERS[name].title}", value=name) for name in papers),
    ]
    return tag(
        "form",
        tag("fieldset", tag("legend", "Verdict"), *choices, class_="choices"),
        tag("label", "Paper ", tag("select", *options, name="paper")),
        tag("label", "Text ", tag("input", type="search", name="text", autocomplete="off")),
        tag("button", "Clear", type="button"),
        tag("output", f"{many(len(entries), 'claim')}", id="shown", aria_live="polite"),
        id="filter",
        role="search",
        aria_label="Filter the claims",
        hidden=True,
    )


def _choice(text: str, kind: str, count: int, *, checked: bool = False) -> Html:
    button = tag("input", type="radio", name="verdict", value="" if kind == "all" else text, checked=checked)
    return tag("label", button, tag("span", f"{text} ", tag("b", f"{count:,}"), class_=f"badge {kind}"))
