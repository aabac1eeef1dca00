"""The command `report`. Slow modules are imported when the command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from separatrix.commands.ending import in_a_sentence
from separatrix.commands.options import RESULTS, StoreOption


@in_a_sentence
def report(
    store: StoreOption = RESULTS,
    paper: Annotated[
        str | None,
        typer.Option("--one", "--paper", help="Write report-PAPER.html, for this paper only.", metavar="PAPER"),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the report of all claims from the results in the store; no cell is run."""
    import webbrowser

    from separatrix.claims import ledger
    from separatrix.claims.verdicts import judge
    from separatrix.lab.store import Store
    from separatrix.report.page import write_report
    from separatrix.studies import load

    load()
    with Store.open(store) as kept:
        judgements = [judge(claim, kept) for claim in ledger.claims(paper)]
        address = write_report(judgements, kept, paper).absolute().as_uri()
    typer.echo(f"The report: {address}")
    if show and not webbrowser.open(address):
        typer.echo("separatrix: no browser could be started; open the address above yourself.", err=True)
        raise typer.Exit(1)
