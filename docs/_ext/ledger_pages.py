"""Paper to code, and the errata: pages made from the ledger of claims and the verdicts recorded of them.

What is made is plain Markdown, so that the pages can be read in the repository as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from docs._ext.cited_places import Place, citing_files, places
from docs._ext.claim_code import claim_files, library_files
from separatrix.claims import PAPERS
from separatrix.claims.ledger import MEANINGS, Claim, Erratum, Verdict, claims, counted, place
from separatrix.claims.verdicts import expected
from separatrix.studies import load

ERRATA_ORDER = ("kronecker", "separation", "selection")
"""The papers in the order in which the page of the errata has them."""


def paper_table(paper: str) -> str:
    """A row for each definition, theorem and figure of a paper, or for each claim where a place has several."""
    load()
    recorded = expected()
    listed = claims(paper)
    rows: dict[str, list[Claim]] = {}
    for one in listed:
        rows.setdefault(one.where, []).append(one)
    bare = {one.where: one for one in places(paper)}
    # What is beyond the papers has no place in them, and stays in the order of the ledger.
    order = list(rows) if paper == "beyond" else sorted({*rows, *bare}, key=lambda where: (place(where), where))
    lines = ["| place | what it says | in the code | claim, and what is found |", "| --- | --- | --- | --- |"]
    for where in order:
        if where in rows:
            lines += _claim_rows(where, rows[where], recorded, citing_files(paper).get(where, ()))
        else:
            lines.append(_place_row(bare[where], citing_files(paper).get(where, ())))
    told = counted(recorded.get(one.id, Verdict.UNDECIDED) for one in listed)
    return "\n".join([f"{len(listed)} claims: {told}.", "", '<div class="paper-rows">', "", *lines, "", "</div>", ""])


def _claim_rows(where: str, group: Sequence[Claim], recorded: Mapping[str, Verdict], cited: Sequence[str]) -> list[str]:
    rows = []
    for number, one in enumerate(group):
        files = dict.fromkeys([*cited, *library_files(one)])
        verdict = recorded.get(one.id, Verdict.UNDECIDED)
        found = f"{_code(one.id)}<br>**{verdict}**"
        if one.profile == "full":
            found += ", with `--profile full`"
        if one.errata:
            many = f"{len(one.errata)} {'erratum' if len(one.errata) == 1 else 'errata'}"
            found += f"<br>[{many}](../errata.md#{_anchors()[one.id]})"
        if one.proof:
            found += f"<br>[proof](../derivations/proofs.md#{slug(one.proof)})"
        if one.neighbours:
            found += f"<br>rejected beside it: {_rejected(one)}"
        if one.alone:
            found += f"<br>no wrong neighbour: {plain(one.alone)}"
        if one.chosen:
            found += "<br>chosen by us: " + "; ".join(map(plain, one.chosen))
        checked = " and ".join(map(source_link, claim_files(one)))
        code = "<br>".join([*map(source_link, files), f"checked in {checked}"])
        rows.append(f"| {plain(where) if number == 0 else ''} | {plain(one.says)} | {code} | {found} |")
    return rows


_SHOWN = 3
"""So many of the wrong neighbours of a claim are written out in the table of a paper."""


def _rejected(one: Claim) -> str:
    """The wrong neighbours of a claim, or the first of them and how many there are more."""
    said = [plain(other.says) for other in one.neighbours]
    more = len(said) - _SHOWN
    return "; ".join(said[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _place_row(one: Place, cited: Sequence[str]) -> str:
    code = "<br>".join(map(source_link, dict.fromkeys([*one.code, *cited])))
    found = f"with {plain(one.see)}" if one.see else ""
    return f"| {plain(one.where)} | {plain(one.says)} | {code} | {found} |"


def errata_list(paper: str) -> str:
    """Every misprint of a paper that a claim shows: what is printed, what is right, why, and how to see it."""
    load()
    recorded = expected()
    sections = []
    for one in claims(paper):
        if one.errata:
            verdict = recorded.get(one.id, Verdict.UNDECIDED)
            sections += [f"### {plain(_called(one))}", "", f"The claim: {plain(one.says)}", ""]
            sections += [line for erratum in one.errata for line in _misprint(erratum)]
            sections += [f"Found: **{verdict}**. To see it again: `{one.command}`", ""]
    return "\n".join(sections)


def _misprint(erratum: Erratum) -> list[str]:
    """A backslash at the end of a line breaks it where the page is shown."""
    return [
        f"- *Printed:* {plain(erratum.printed)}\\",
        f"  *Right:* {plain(erratum.right)}\\",
        f"  *Why:* {plain(erratum.why)}",
        "",
    ]


def paper_heading(paper: str) -> str:
    """Whose paper it is."""
    return f"{plain(PAPERS[paper].authors)}, *{plain(PAPERS[paper].title)}*.\n"


def verdicts_list() -> str:
    """What each verdict means."""
    return "\n".join([*(f"- **{verdict}**: {meaning}" for verdict, meaning in MEANINGS.items()), ""])


def _called(one: Claim) -> str:
    part = one.id.split("/")[2:]
    return f"{one.where}, {part[0].replace('-', ' ')}" if part else one.where


@cache
def _anchors() -> dict[str, str]:
    """The anchor of each claim on the page of the errata, as GitHub and MyST make it of the headings in their order."""
    load()
    taken: Counter[str] = Counter()
    found = {}
    for paper in ERRATA_ORDER:
        for one in claims(paper):
            if one.errata:
                anchor = slug(_called(one))
                found[one.id] = f"{anchor}-{taken[anchor]}" if taken[anchor] else anchor
                taken[anchor] += 1
    return found


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it.

    >>> slug("Lemma C.5, part 1")
    'lemma-c5-part-1'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _code(text: str) -> str:
    return f"`{text}`"


def source_link(file: str) -> str:
    """The name of a file of `src/separatrix` as a link to it, from a page in a folder of the documents.

    >>> source_link("attention/operator.py")
    '[`attention/operator.py`](../../src/separatrix/attention/operator.py)'
    """
    return f"[{_code(file)}](../../src/separatrix/{file})"


def plain(text: str) -> str:
    """Text in which every character stands for itself, within a line of Markdown.

    An underscore inside a word needs no backslash; brackets need none unless they would make a link.

    >>> plain("A_1 * |x|_{2} < $2$")
    'A_1 \\\\* \\\\|x\\\\|\\\\_{2} \\\\< \\\\$2\\\\$'
    """
    text = re.sub(r"([\\`*|<$~])", r"\\\1", text)
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return text.replace("](", r"\](")
