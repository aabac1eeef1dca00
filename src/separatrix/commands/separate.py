"""The command `separate`. Slow modules are imported when the command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from separatrix.commands.ending import in_a_sentence


@in_a_sentence
def separate(
    n: Annotated[str, typer.Option(help="Tokens: 200, 1e6, 10^100.")],
    d: Annotated[str, typer.Option(help="The width of a token.")],
    m: Annotated[str, typer.Option(help="The number of random sign vectors in the last layer.")] = "15",
    a0: Annotated[str, typer.Option(help="The special token's first coordinate in D0.")] = "0.01",
    a1: Annotated[str, typer.Option(help="The special token's first coordinate in D1.")] = "1.2",
    b: Annotated[str, typer.Option(help="A token's entry in the column of its class.")] = "0.2",
    c: Annotated[str, typer.Option(help="A token's entry in the last column.")] = "0.8",
    weights: Annotated[str, typer.Option(help="ones, identity or cross.")] = "ones",
    mechanism: Annotated[str, typer.Option(help="The mechanism that replaces the softmax of the paper.")] = "softmax",
) -> None:
    """Print the exact probability that a mechanism separates D1 from D0 and linear attention does not."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from separatrix.claims.formulas import readable
    from separatrix.explorer.separate import fields, probabilities

    texts = {"n": n, "d": d, "m": m, "a0": a0, "a1": a1, "b": b, "c": c, "weights": weights, "mechanism": mechanism}
    setting = probabilities.look({field.name: field.read(texts[field.name]) for field in fields.FIELDS})
    table = Table("event", "probability", title=f"n = {n}, d = {d}, m = {m}, {weights}", title_justify="left")
    for what, _, probability in setting.parts():
        table.add_row(escape(readable(what)), probability)
    Console().print(table)
    broken = probabilities.outside(setting)
    if broken:
        typer.echo(f"The setting violates {broken}.")
    else:
        typer.echo(
            "The setting satisfies every hypothesis of its definition and theorem that can be checked at a fixed n."
        )
        also = readable(probabilities.unchecked(setting))
        typer.echo(f"They also require {also}; these are about growing n, and not checked.")
