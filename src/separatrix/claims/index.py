"""The index of the ledger: the declarations of all claims, without the code that checks them.

`separatrix claims` lists recorded verdicts from the index, so that it need not import the modules of the claims, nor
torch and scipy, which these import. `python -m tests.docs.refresh --made` writes it from the ledger, and a test
compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NoReturn

from separatrix.checks import one_of
from separatrix.claims import PAPERS
from separatrix.claims.ledger import Claim, Erratum, Rank

INDEX = Path(__file__).with_name("index.json")
_CODE = ("cells", "check", "neighbours")
"""The fields of a claim that the index omits: code and its arguments."""


def index_of(claims: Iterable[Claim]) -> str:
    """The index of some claims as JSON: a list with an object for each claim, in their order."""
    names = [field.name for field in fields(Claim) if field.name not in (*_CODE, "errata")]
    entries = [
        {**{name: getattr(claim, name) for name in names}, "errata": [asdict(erratum) for erratum in claim.errata]}
        for claim in claims
    ]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def indexed_claims(paper: str | None = None) -> list[Claim]:
    """The claims of the index, or those of one paper, in the ledger's order. They can be listed, but not judged."""
    if paper is not None:
        one_of("--paper", paper, PAPERS)
    return [_claim(entry) for entry in json.loads(INDEX.read_text("utf-8")) if paper in (None, entry["paper"])]


def _claim(entry: dict[str, Any]) -> Claim:
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    values["errata"] = tuple(Erratum(**{**erratum, "rank": Rank(erratum["rank"])}) for erratum in entry["errata"])
    return Claim(**values, cells=_no_code, check=_no_code)


def _no_code(*_: object) -> NoReturn:
    raise TypeError("a claim of the index has no code: `studies.load` registers the claims that have")
