"""The command `reproduce`. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from separatrix.commands.ending import in_a_sentence, tell_end
from separatrix.commands.options import (
    RESULTS,
    DaskOption,
    InProcessOption,
    PaperOption,
    RetryOption,
    StoreOption,
    WorkersOption,
    choose_crew,
)
from separatrix.commands.verdict_table import BRIEF_FROM, print_summary, print_table


class Profile(StrEnum):
    """How much to run."""

    QUICK = "quick"
    FULL = "full"


@in_a_sentence
def reproduce(
    profile: Annotated[Profile, typer.Option(help="Minutes of work, or the papers' own sizes.")] = Profile.QUICK,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this claim; may be repeated.", metavar="ID")
    ] = None,
    paper: PaperOption = None,
    store: StoreOption = RESULTS,
    workers: WorkersOption = None,
    in_process: InProcessOption = False,
    dask: DaskOption = None,
    retry_failed: RetryOption = False,
) -> None:
    """Run what is missing, print every verdict, write the report; fail if a verdict is not the recorded one.

    With --paper or --only, the other claims are neither run nor judged nor drawn: the page is then called
    report-PAPER.html or report-only.html.
    """
    from separatrix.claims import PAPERS, ledger, verdicts
    from separatrix.claims.costs import costs
    from separatrix.claims.reproduce import needed
    from separatrix.claims.reproduce import reproduce as do
    from separatrix.lab import progress
    from separatrix.lab.store import Store
    from separatrix.report import page
    from separatrix.studies import load

    papers = {id.partition("/")[0] for id in only} if only else {paper}
    for name in papers if papers <= PAPERS.keys() else {None}:
        load(name)
    chosen = ledger.claims(paper, only or ())
    recorded = verdicts.expected()
    cells, cost = needed(chosen, profile.value), costs()
    total = len(cells)
    crew = choose_crew(workers, in_process, dask)
    with Store.create(store) as kept:
        statuses = kept.statuses([cell.key for cell in cells])
        over = {"done"} if retry_failed else {"done", "failed"}
        work = progress.Work(sum(cost(cell) for cell in cells if statuses.get(cell.key) not in over), crew.executors)
        with progress.on(total, work=work) as shown:
            done = do(chosen, kept, crew, profile=profile.value, progress=shown, retry_failed=retry_failed, cost=cost)
        code = tell_end(done.tally, total, store)
        if done.tally.stopped:
            raise typer.Exit(code)
        (print_table if len(done.judgements) < BRIEF_FROM else print_summary)(done.judgements)
        path = page.write_report(done.judgements, kept, "only" if only else paper)
        typer.echo(f"The report: {path.absolute().as_uri()}")
    for problem in (one.problem for one in done.judgements if one.problem):
        typer.echo(problem, err=True)
    told = verdicts.differences(done.judgements, recorded, profile.value, everything=not (only or paper))
    for sentence in told:
        typer.echo(f"DIFFERS  {sentence}", err=True)
    raise typer.Exit(1 if told else code)
