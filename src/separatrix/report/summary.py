"""The head of the page: how many claims have which verdict, and the table of all of them with its filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from separatrix.claims import PAPERS
from separatrix.claims.ledger import MEANINGS, Claim, Verdict, identity
from separatrix.lab.console import many
from separatrix.lab.progress import spell
from separatrix.report.evidence import Entry
from separatrix.report.markup import Html, tag

_MARKS = {
    Verdict.HOLDS: "✓",
    Verdict.HOLDS_CORRECTED: "✎",
    Verdict.HOLDS_ASYMPTOTICALLY: "≈",
    Verdict.FAILS_AS_PRINTED: "✗",
    Verdict.ILLUSTRATED: "◇",
    Verdict.UNDECIDED: "?",
}


def badge(verdict: Verdict) -> Html:
    """A verdict in its colour, with a mark for those who do not see it."""
    sign = tag("span", _MARKS[verdict], aria_hidden="true")
    return tag("span", sign, f" {verdict}", class_=f"badge {_class(verdict)}")


def mark(verdict: Verdict) -> Html:
    """A verdict's mark alone, for lists; its name is there for those who do not see it."""
    return tag(
        "span", _MARKS[verdict], role="img", aria_label=verdict.value, title=verdict.value,
        class_=f"mark {_class(verdict)}",
    )  # fmt: skip


def _class(verdict: Verdict) -> str:
    return verdict.value.replace(" ", "-")


def called(claim: Claim) -> str:
    """A claim's place in its paper, and which part of what is said there."""
    part = claim.id.removeprefix(identity(claim.paper, claim.where)).strip("/").replace("-", " ")
    return f"{claim.where}: {part}" if part else claim.where


def spelled(value: object) -> str:
    """A number of the evidence in six digits.

    >>> from separatrix.claims.ledger import Interval
    >>> spelled(1 / 3), spelled(12), spelled(Interval(0.5, 0.25, 1.0, 0.9))
    ('0.333333', '12', '0.5 (0.25 to 1 at 90%)')
    """
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def summary(entries: Sequence[Entry]) -> Html:
    """The counts, the filter, the table, and what the verdicts mean."""
    if not entries:
        return tag("section", tag("h2", "Summary"), tag("p", "No claims are recorded yet."), id="summary")
    heading = tag("h2", "Summary")
    frame = tag("div", _table(entries), class_="wide")
    none = tag("p", "No claim matches.", id="no-match", hidden=True)
    return tag("section", heading, _unlike(entries), _filter(entries), frame, none, _legend(), id="summary")


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


def _filter(entries: Sequence[Entry]) -> Html:
    """Shown by the script that makes it work."""
    count = Counter(one.judgement.verdict for one in entries)
    choices = [_choice("all", "all", len(entries), checked=True)]
    choices += [_choice(verdict.value, _class(verdict), count[verdict]) for verdict in Verdict if count[verdict]]
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
            tag("span", claim.says, class_="says short"),
            tag("span", claim.paper, class_="of"),
            scope="row",
        ),
        tag(
            "td",
            badge(one.verdict),
            tag("span", "not as recorded", class_="differs") if entry.difference else None,
            data_column="Verdict",
        ),
        tag("td", tag("span", found, class_="short") if found else None, data_column="Found", class_="found"),
        tag("td", have, data_column="Cells", class_="number"),
        tag("td", spell(one.seconds), data_column="Time", class_="number"),
        data_verdict=one.verdict.value,
        data_unlike=entry.difference is not None,
        data_paper=claim.paper,
        data_text=claim.id,
    )


def _legend() -> Html:
    pairs = [tag("div", tag("dt", badge(verdict)), tag("dd", says)) for verdict, says in MEANINGS.items()]
    return tag("details", tag("summary", "What the verdicts mean"), tag("dl", *pairs, class_="legend"))
