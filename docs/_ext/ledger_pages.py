"""Paper to code: pages generated from the ledger of claims and their recorded verdicts.

The result is plain Markdown, so that the pages can be read in the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from docs._ext.cited_places import Place, citing_files, places
from docs._ext.claim_code import claim_files, library_files
from docs._ext.errata_pages import anchors
from docs._ext.markdown import marked, plain, slug
from separatrix.claims import PAPERS
from separatrix.claims.counts import count_recorded
from separatrix.claims.ledger import MEANINGS, Claim, Verdict, claims, place
from separatrix.claims.machine_checked import PROOFS, CheckedProof, proofs_of
from separatrix.claims.verdicts import Recorded, records
from separatrix.lab.wording import many
from separatrix.studies import load


def paper_table(paper: str) -> str:
    """A row for each definition, theorem and figure of a paper; a place with several claims has several rows."""
    load()
    recorded = records()
    listed = claims(paper)
    rows: dict[str, list[Claim]] = {}
    for claim in listed:
        rows.setdefault(claim.where, []).append(claim)
    bare = {bare_place.where: bare_place for bare_place in places(paper)}
    # Claims beyond the papers have no place in a paper, and are listed in the order of the ledger.
    order = list(rows) if paper == "beyond" else sorted({*rows, *bare}, key=lambda where: (place(where), where))
    lines = ["| place | what it says | in the code | claim and verdict |", "| --- | --- | --- | --- |"]
    for where in order:
        if where in rows:
            lines += _claim_rows(where, rows[where], recorded, citing_files(paper).get(where, ()))
        else:
            lines.append(_place_row(bare[where], citing_files(paper).get(where, ())))
    return "\n".join([str(count_recorded(paper)), "", '<div class="paper-rows">', "", *lines, "", "</div>", ""])


def _claim_rows(
    where: str, group: Sequence[Claim], recorded: Mapping[str, Recorded], cited: Sequence[str]
) -> list[str]:
    rows = []
    for number, claim in enumerate(group):
        files = dict.fromkeys([*cited, *library_files(claim)])
        record = recorded.get(claim.id, Recorded(Verdict.NOT_RUN))
        verdict_cell = f"{_code(claim.id)}<br>**{record.verdict}**{plain(record.suffix)}"
        if claim.profile == "full":
            verdict_cell += ", with `--profile full`"
        if claim.errata:
            links = [f"[{anchor.partition('-')[0]}](../errata.md#{anchor})" for anchor in anchors()[claim.id]]
            verdict_cell += f"<br>{'erratum' if len(links) == 1 else 'errata'} {', '.join(links)}"
        if claim.proof:
            verdict_cell += f"<br>[proof](../derivations/proofs.md#{slug(claim.proof)})"
        if proofs := proofs_of(claim.id):
            verdict_cell += f"<br>checked by Coq: {', '.join(map(_proof_link, proofs))}"
        if claim.neighbours:
            verdict_cell += _folded(many(len(claim.neighbours), "wrong neighbour"), [_rejected(claim)])
        if claim.alone:
            verdict_cell += f"<br>it has no wrong neighbour: {marked(claim.alone)}"
        if claim.chosen:
            verdict_cell += _folded("settings that the paper does not print", map(marked, claim.chosen))
        if claim.history:
            verdict_cell += _folded("rules changed after results had been seen", map(marked, claim.history))
        checked = " and ".join(map(source_link, claim_files(claim)))
        defined = [f"implemented by {' and '.join(map(_code, claim.defines))}"] if claim.defines else []
        listed = list(map(source_link, files))
        listed = listed if len(listed) <= _UNFOLDED else [_folded(many(len(listed), "file"), listed)]
        code = "<br>".join([*defined, *listed, f"checked in {checked}"]).replace("</details><br>", "</details>")
        rows.append(f"| {plain(where) if number == 0 else ''} | {marked(claim.says)} | {code} | {verdict_cell} |")
    return rows


_UNFOLDED = 2
"""The largest number of files of a claim that are not folded."""


def _folded(summary: str, lines: Iterable[str]) -> str:
    """The lines of a collapsible table cell."""
    return f"<details><summary>{summary}</summary>{'<br>'.join(lines)}</details>"


_SHOWN = 3
"""The number of wrong neighbours of a claim that the table of a paper shows."""


def _rejected(claim: Claim) -> str:
    """The false variants of a claim; of a long list the first variants and the number of the others."""
    said = [marked(neighbour.says) for neighbour in claim.neighbours]
    more = len(said) - _SHOWN
    return "; ".join(said[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _place_row(place_of_paper: Place, cited: Sequence[str]) -> str:
    code = "<br>".join(map(source_link, dict.fromkeys([*place_of_paper.code, *cited])))
    see = f"with {plain(place_of_paper.see)}" if place_of_paper.see else ""
    return f"| {plain(place_of_paper.where)} | {marked(place_of_paper.says)} | {code} | {see} |"


def paper_heading(paper: str) -> str:
    """The authors of the paper, and the version that was read."""
    about = PAPERS[paper]
    version = f"; {plain(about.version)}" if about.version else ""
    version = re.sub(r"arXiv:(\d{4}\.\d{5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", version)
    return f"{plain(about.authors)}, *{plain(about.title)}*{version}.\n"


def verdicts_list() -> str:
    """The meaning of each verdict."""
    return "\n".join([*(f"- **{verdict}**: {meaning}" for verdict, meaning in MEANINGS.items()), ""])


def machine_checked_table() -> str:
    """A row for each theorem of `proofs/`: the claim that it is about, what is proved, and where."""
    rows = [
        f"| {_code(proof.claim) if proof.claim else 'the library'} | {marked(proof.proves)} | {_proof_link(proof)} |"
        for proof in PROOFS
    ]
    return "\n".join(["| about | what is proved | theorem |", "| --- | --- | --- |", *rows, ""])


def _proof_link(proof: CheckedProof) -> str:
    return f"[{_code(proof.theorem)}](../../{proof.file})"


def _code(text: str) -> str:
    return f"`{text}`"


def source_link(file: str) -> str:
    """A Markdown link to a file of `src/separatrix`, for pages in the folders of the documents.

    >>> source_link("attention/operator.py")
    '[`attention/operator.py`](../../src/separatrix/attention/operator.py)'
    """
    return f"[{_code(file)}](../../src/separatrix/{file})"
