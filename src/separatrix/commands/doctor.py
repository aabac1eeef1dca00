"""The command `doctor`. Slow modules are imported when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from separatrix.commands.ending import in_a_sentence
from separatrix.commands.options import RESULTS
from separatrix.lab.wording import many

if TYPE_CHECKING:
    from rich.table import Table

    from separatrix.attention.arithmetic.measured import Measurement
    from separatrix.doctor import SelfCheck
    from separatrix.lab.health import StoreHealth


@in_a_sentence
def doctor(
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", help=f"A folder of results to check; {RESULTS} if there is one here.", metavar="FOLDER"
        ),
    ] = None,
) -> None:
    """Print versions, the machine and its speed, self-checks and the state of a store, for bug reports.

    The last line says whether certificates are valid on this machine, based on measurements of what they assume about
    its arithmetic. Exits with 1 if they are not, if a self-check fails or if the store is damaged.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from separatrix.attention.arithmetic.measured import verdict
    from separatrix.doctor import assumptions, busy, machine, roofline, self_checks, speeds, versions
    from separatrix.lab.health import store_health

    folder = RESULTS if store is None and RESULTS.is_dir() else store
    health = None if folder is None else store_health(folder)
    measured = assumptions()
    everywhere = [measurement for measurements in measured.values() for measurement in measurements]
    valid = all(measurement.holds for measurement in everywhere)
    table = Table("what", "found", title="separatrix doctor", title_justify="left")
    for name, value in versions():
        table.add_row(name, escape(value))
    table.add_section()
    for name, value in machine():
        table.add_row(name, escape(value))
    for width in (16, 64):
        best = roofline(width)
        table.add_row(
            f"roofline, d = {width}",
            f"{best.gflops:.0f} GFLOP/s (mm, exp, mm in float32 on {best.rows} x {best.columns} scores)",
        )
    if valid:
        exact, polynomial = speeds()
        for speed in (exact, polynomial):
            table.add_row(
                f"speed, {speed.method}",
                f"{1e3 * speed.seconds:.1f} ms, {speed.factor:.2f} times the cost model's ({speed.what})",
            )
        if loaded := busy():
            table.add_row("busy", loaded)
        balance = polynomial.factor / exact.factor
        table.add_row("balance", f"polynomial / exact is {balance:.2f} times the cost model's")
    table.add_section()
    if health is None:
        table.add_row("store", f"none: there is no folder {RESULTS} here, and no --store was given")
    else:
        _tell_store(table, folder, health)
    Console().print(table)
    checks = self_checks() if valid else []  # if they are not valid, a call with a certificate may raise an error
    if checks:
        _tell_checks(checks)
    for device, measurements in measured.items():
        _tell_assumptions(device, measurements)
    Console().print(verdict(everywhere), soft_wrap=True, markup=False, highlight=False)
    if not valid or not all(check.passed for check in checks) or (health is not None and health.damages):
        raise typer.Exit(1)


def _tell_store(table: Table, folder: Path | None, health: StoreHealth) -> None:
    from rich.markup import escape

    held = ", ".join(f"{count:,} {status}" for status, count in health.cells.items()) or "nothing yet"
    table.add_row("store", escape(f"{folder}: {held}; {many(health.bytes, 'byte')}"))
    table.add_row("runs on it", f"{health.runs} going on" if health.runs else "none")
    if health.damages:
        first_damages = "\n".join(health.damages[:5])
        more = "" if len(health.damages) <= 5 else "\n..."
        advice = f"`separatrix store verify --store {folder}` lists all"
        table.add_row("damages", f"[red]{len(health.damages):,}[/]\n{escape(first_damages + more)}\n{escape(advice)}")
    else:
        table.add_row("damages", "none: all checksums match")


def _tell_checks(checks: Sequence[SelfCheck]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("method", "order", "largest error", "allowed", "verdict", title="self-checks", title_justify="left")
    for check in checks:
        verdict = "[green]passed[/]" if check.passed else "[red]FAILED[/]"
        table.add_row(escape(check.method), str(check.order), f"{check.error:.1e}", f"{check.tolerance:.0e}", verdict)
    Console().print(table)


def _tell_assumptions(device: str, measurements: Sequence[Measurement]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    title = f"what certificates assume about the arithmetic ({device})"
    table = Table("assumption", "found", "allowed", "verdict", title=title, title_justify="left")
    for measurement in measurements:
        statement = f"{measurement.assumption.statement}\n{measurement.remark}".strip()
        kept = "[green]kept[/]" if measurement.holds else "[red]BROKEN[/]"
        table.add_row(escape(statement), f"{measurement.error:.2g}", f"{measurement.assumption.limit:g}", kept)
    Console().print(table)
