"""The command `reproduce`. Slow modules are imported when the command runs."""

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
    """The profile of a run: the quick claims, or all claims at the sizes of the papers."""

    QUICK = "quick"
    FULL = "full"


@in_a_sentence
def reproduce(
    profile: Annotated[
        Profile, typer.Option(help="quick takes minutes; full has the sizes of the papers and takes hours.")
    ] = Profile.QUICK,
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
    """Run missing cells, print verdicts and write the report; fail if a verdict differs from the recorded one.

    With --paper or --only, the other claims are left out, and the page is report-PAPER.html or report-only.html.
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
        with progress.on(total, work=work) as display:
            done = do(chosen, kept, crew, profile=profile.value, progress=display, retry_failed=retry_failed, cost=cost)
        code = tell_end(done.tally, total, store)
        if done.tally.stopped:
            raise typer.Exit(code)
        (print_table if len(done.judgements) < BRIEF_FROM else print_summary)(done.judgements)
        path = page.write_report(done.judgements, kept, "only" if only else paper)
        typer.echo(f"The report: {path.absolute().as_uri()}")
    for problem in (judgement.problem for judgement in done.judgements if judgement.problem):
        typer.echo(problem, err=True)
    sentences = verdicts.differences(done.judgements, recorded, profile.value, everything=not (only or paper))
    for sentence in sentences:
        typer.echo(f"DIFFERS  {sentence}", err=True)
    raise typer.Exit(1 if sentences else code)
