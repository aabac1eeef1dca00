"""The command `claims`. Slow modules are imported when the command runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from separatrix.claims.formulas import readable
from separatrix.claims.machine_checked import proofs_of
from separatrix.commands.ending import in_a_sentence
from separatrix.commands.options import RESULTS, PaperOption, StoreOption
from separatrix.commands.verdict_table import print_table

if TYPE_CHECKING:
    from separatrix.claims.ledger import Claim
    from separatrix.claims.verdicts import Judgement


@in_a_sentence
def claims(
    store: StoreOption = RESULTS,
    paper: PaperOption = None,
    verdict: Annotated[
        list[str] | None,
        typer.Option(help="Only claims with this verdict, such as 'holds corrected'; may be repeated."),
    ] = None,
    place: Annotated[
        str | None, typer.Option(help="Only claims on this place of a paper, such as 'Lemma D.6' or D.6.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Only claims that have this text in their name, place or statement.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: a list with an object for each claim.")] = False,
) -> None:
    """List the claims of the papers with their verdicts; nothing is run.

    Verdicts are computed from the results in the store. A claim without results there has its recorded verdict, with
    the date of the runs for a claim of the full profile, and with the version of Separatrix for a quick claim.
    """
    from separatrix.checks import one_of
    from separatrix.claims.ledger import Verdict
    from separatrix.lab.store import has_store

    for wanted in verdict or ():
        one_of("--verdict", wanted, [value.value for value in Verdict])
    is_stored = has_store(store)
    chosen = [claim for claim in _claims(paper, is_stored) if _is_about(claim, place, text)]
    judgements = _judged(chosen, store) if is_stored else _recalled(chosen)
    judged = [judgement for judgement in judgements if verdict is None or judgement.verdict.value in verdict]
    if as_json:
        typer.echo(json.dumps([_as_json(judgement) for judgement in judged], indent=2, ensure_ascii=False))
    elif (chosen and not judged) or ((place or text) and not chosen):
        typer.echo("No claim matches. `separatrix claims` lists all claims.")
    else:
        print_table(judged)


def _claims(paper: str | None, to_judge: bool) -> list[Claim]:
    """The claims: with their code if they are to be judged, otherwise from the index, which is faster to load."""
    if not to_judge:
        from separatrix.claims.index import indexed_claims

        return indexed_claims(paper)
    from separatrix.claims import ledger
    from separatrix.studies import load

    load()
    return ledger.claims(paper)


def _judged(claims: list[Claim], store: Path) -> list[Judgement]:
    from separatrix.claims.verdicts import judge, or_recorded, records
    from separatrix.lab.store import Store

    recorded = records()
    with Store.open(store) as kept:
        return [or_recorded(judge(claim, kept), recorded) for claim in claims]


def _recalled(claims: list[Claim]) -> list[Judgement]:
    from separatrix.claims.verdicts import recalled, records

    recorded = records()
    return [recalled(claim, recorded) for claim in claims]


def _is_about(claim: Claim, place: str | None, text: str | None) -> bool:
    """Whether a claim is about `place`, which may be a number alone, and has `text` in its id, place or statement."""
    where = claim.where.casefold()
    if place is not None and place.casefold().strip() not in (where, *where.replace(",", " ").split()):
        return False
    parts = (claim.id, claim.where, claim.says, readable(claim.says))
    return text is None or any(text.casefold() in part.casefold() for part in parts)


def _as_json(judgement: Judgement) -> dict[str, Any]:
    """A claim and its verdict as a JSON object; infinities and NaN are strings, and formulas are LaTeX."""
    claim, finding = judgement.claim, judgement.finding
    return {
        "id": claim.id,
        "paper": claim.paper,
        "place": claim.where,
        "says": claim.says,
        "verdict": judgement.verdict.value,
        "corrected": judgement.verdict.is_corrected,
        "rerun": judgement.rerun,
        "note": finding.note,
        "numbers": {name: x if isinstance(x, int) else str(x) for name, x in finding.numbers.items()},
        "errata": [{"rank": x.rank, "printed": x.printed, "right": x.right, "why": x.why} for x in claim.errata],
        "defines": list(claim.defines),
        "machine_checked": [
            {"theorem": proof.theorem, "file": proof.file, "proves": proof.proves} for proof in proofs_of(claim.id)
        ],
        "history": list(claim.history),
        "profile": claim.profile,
        "cells": len(judgement.keys),
        "missing": judgement.missing,
        "failed": judgement.failed,
        "seconds": judgement.seconds,
        "command": claim.command,
    }
