"""Paper to code, and the errata: pages made from the ledger of claims and the verdicts recorded of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from docs._ext.cited_places import Place, citing_files, places
from docs._ext.claim_code import claim_files, library_files
from separatrix.claims import PAPERS
from separatrix.claims.ledger import Claim, Erratum, Verdict, claims, place
from separatrix.claims.verdicts import expected
from separatrix.studies import load

_MEANINGS = {
    Verdict.HOLDS: "as printed",
    Verdict.HOLDS_CORRECTED: "after a correction, which is among the [errata](../errata.md)",
    Verdict.HOLDS_ASYMPTOTICALLY: "in the limit, where finite sizes say something else or nothing",
    Verdict.FAILS_AS_PRINTED: "what is printed is false, and an erratum says what is true instead",
    Verdict.ILLUSTRATED: "a program cannot decide it; what ran is named",
}


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
    order = list(rows) if paper == "beyond" else sorted({*rows, *bare}, key=place)
    lines = ["| place | what it says | in the code | claim, and what is found |", "| --- | --- | --- | --- |"]
    for where in order:
        if where in rows:
            lines += _claim_rows(where, rows[where], recorded, citing_files(paper).get(where, ()))
        else:
            lines.append(_place_row(bare[where], citing_files(paper).get(where, ())))
    count = [f"{sum(recorded.get(one.id) == verdict for one in listed)} {verdict}" for verdict in _MEANINGS]
    told = ", ".join(text for text in count if not text.startswith("0 "))
    return "\n".join([f"{len(listed)} claims: {told}.", "", ":::{container} paper-rows", "", *lines, "", ":::", ""])


def _claim_rows(where: str, group: Sequence[Claim], recorded: Mapping[str, Verdict], cited: Sequence[str]) -> list[str]:
    rows = []
    for number, one in enumerate(group):
        files = dict.fromkeys([*cited, *library_files(one)])
        verdict = recorded.get(one.id, Verdict.UNDECIDED)
        found = f"{_code(one.id)}<br>**{verdict}**"
        if one.profile == "full":
            found += ", with `--profile full`"
        if one.errata:
            found += f"<br>[{len(one.errata)} {'erratum' if len(one.errata) == 1 else 'errata'}](#{_label(one)})"
        checked = " and ".join(map(_code, claim_files(one)))
        code = "<br>".join([*map(_code, files), f"checked in {checked}"])
        rows.append(f"| {plain(where) if number == 0 else ''} | {plain(one.says)} | {code} | {found} |")
    return rows


def _place_row(one: Place, cited: Sequence[str]) -> str:
    code = "<br>".join(map(_code, dict.fromkeys([*one.code, *cited])))
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
            sections += [f"({_label(one)})=", f"### {plain(_called(one))}", "", f"The claim: {plain(one.says)}", ""]
            sections += [line for erratum in one.errata for line in _misprint(erratum)]
            sections += [f"Found: **{verdict}**. To see it again:", "", "```sh", one.command, "```", ""]
    return "\n".join(sections)


def _misprint(erratum: Erratum) -> list[str]:
    named = {"Printed": erratum.printed, "Right": erratum.right, "Why": erratum.why}
    return [line for name, text in named.items() for line in (name, f": {plain(text)}", "")]


def paper_heading(paper: str) -> str:
    """Whose paper it is."""
    return f"{plain(PAPERS[paper].authors)}, *{plain(PAPERS[paper].title)}*."


def verdicts_list() -> str:
    """What each verdict means."""
    return "\n".join(f"- **{verdict}**: {meaning}" for verdict, meaning in _MEANINGS.items())


def _called(one: Claim) -> str:
    part = one.id.split("/")[2:]
    return f"{one.where}, {part[0].replace('-', ' ')}" if part else one.where


def _label(one: Claim) -> str:
    return "errata-" + re.sub(r"[^a-z0-9]+", "-", one.id)


def _code(text: str) -> str:
    return f"`{text}`"


def plain(text: str) -> str:
    """Text in which every character stands for itself in MyST.

    >>> plain("A_1 * |x| < $2$")
    'A\\\\_1 \\\\* \\\\|x\\\\| \\\\< \\\\$2\\\\$'
    """
    return re.sub(r"([\\`*_{}\[\]()#+\-!|<>$~^&=:.])", r"\\\1", text)
