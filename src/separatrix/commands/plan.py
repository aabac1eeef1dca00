"""The command `plan`. Slow modules are imported when the command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from separatrix.commands.options import whole_option


def plan(
    n: Annotated[int, whole_option(help="Tokens: 1000, 1e6, 10^6.")],
    d: Annotated[int, whole_option(help="Dimension of a head.")],
    bound: Annotated[float, typer.Option(help="B: the largest magnitude of an entry of queries, keys and values.")],
    order: Annotated[int, whole_option(help="k: 2 is ordinary attention.")] = 3,
    tolerance: Annotated[float, typer.Option(help="Error allowed in every entry of the output.")] = 1e-3,
) -> None:
    """Print the algorithm that is planned for order-k attention with entries up to a bound, its rank and its cost."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from separatrix import SeparatrixError, max_order, plan_shapes

    try:
        chosen = plan_shapes(n, d, bound, order, tolerance)
        most = max_order(n, bound) if n > 1 else None
    except SeparatrixError as error:
        typer.echo(f"separatrix plan: --{error}", err=True)
        raise typer.Exit(2) from None
    table = Table("what", "planned", title=f"order {order}, n = {n:,}, d = {d}, B = {bound:g}", title_justify="left")
    table.add_row("method", chosen.method)
    if chosen.rank is not None:
        table.add_row("index set", f"{chosen.index_set}, rank {chosen.rank}")
    if chosen.method != "none":
        table.add_row("flops", f"{chosen.flops:.3g}")
        table.add_row("memory", f"{chosen.bytes / 2**20:.3g} MiB in addition to inputs and outputs")
    table.add_row(
        "largest order by the paper's rule", "-" if most is None else "any" if most == float("inf") else f"{most}"
    )
    table.add_row("why", escape(chosen.why))
    Console().print(table)
