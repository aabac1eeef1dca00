"""An empty ledger, and a claim that is declared there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from separatrix import studies
from separatrix.claims import index, ledger
from separatrix.claims.ledger import CellResult, Claim, Finding, Verdict, claim
from separatrix.report import figures as _figures  # noqa: F401  the drawings import claims into the real ledger
from tests.lab.experiments import number


def emptied(monkeypatch: pytest.MonkeyPatch) -> dict[str, Claim]:
    """An empty ledger until the end of the test, and an index of the claims declared in it."""
    registry: dict[str, Claim] = {}
    monkeypatch.setattr(ledger, "_REGISTRY", registry)
    monkeypatch.setattr(studies, "load", lambda paper=None: None)
    monkeypatch.setattr(index, "indexed_claims", ledger.claims)
    return registry


def declare(where: str = "Lemma 1", **options: Any) -> Claim:
    """A claim that five numbers are positive."""
    options = {
        "paper": "kronecker",
        "says": "They are positive.",
        "cells": lambda: [number.cell(seed=seed, x=1.0) for seed in range(5)],
    } | options

    @claim(where=where, **options)
    def positive(cells: Sequence[CellResult]) -> Finding:
        least = min(cell.result["y"] for cell in cells)
        return Finding(Verdict.HOLDS if least > 0 else Verdict.FAILS_AS_PRINTED, {"least": least})

    return positive
