"""The command `claims`. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

from contextlib import nullcontext

from separatrix.commands.ending import in_a_sentence
from separatrix.commands.options import RESULTS, PaperOption, StoreOption
from separatrix.commands.verdict_table import print_table


@in_a_sentence
def claims(store: StoreOption = RESULTS, paper: PaperOption = None) -> None:
    """List the claims of the papers with the verdicts that the store supports; nothing is run."""
    from separatrix.claims import ledger
    from separatrix.claims.verdicts import judge
    from separatrix.lab.store import Store
    from separatrix.studies import load

    load()
    with Store.open(store) if (store / "store.sqlite").exists() else nullcontext() as kept:
        print_table([judge(claim, kept) for claim in ledger.claims(paper)])
