"""Misprints that cells measure: the amounts by which the printed and the corrected statement are violated.

The result of a cell has, under the name that shows an erratum, the pair [printed, right] of the amounts by which the
two forms are violated; an amount of at most zero means that the form holds. The misprint is shown if the printed form
is violated in some cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, holds_if

ROUNDING = 1e-9
"""A bound on the rounding error of float64 in these formulas, whose terms are of order one."""


def missed(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """The worst of several [printed, right] pairs.

    >>> missed([(0.5, -1.0), (-2.0, -0.25)])
    [0.5, -0.25]
    """
    listed = list(pairs)
    return [max(pair[at] for pair in listed) for at in (0, 1)]


def worst(cells: Sequence[CellResult], name: str) -> tuple[float, float]:
    """The largest violations of the printed and the corrected form, over the cells that have the pair."""
    pairs = [cell.result[name] for cell in cells if name in cell.result]
    printed, right = missed(pairs)
    return printed, right


def as_printed(errata: Sequence[Erratum]) -> tuple[Neighbour, ...]:
    """The printed statements as wrong neighbours of the corrected ones, one for each misprint."""
    return tuple(Neighbour(f"{erratum.shown_by}, as printed", {"misprint": erratum.shown_by}) for erratum in errata)


def compared(
    cells: Sequence[CellResult],
    errata: Sequence[Erratum],
    numbers: Mapping[str, float | str] | None = None,
    *,
    held: bool = True,
    misprint: str = "",
) -> Finding:
    """The finding of a check whose misprints are measured in pairs; `held` is whether everything else holds.

    With `misprint`, the printed form of that misprint is judged instead of the corrected one.
    """
    amounts = {erratum.shown_by: worst(cells, erratum.shown_by) for erratum in errata}
    evidence: dict[str, float | str] = dict(numbers or {})
    for name, (printed, right) in amounts.items():
        evidence[f"{name}: violation, as printed"] = printed
        evidence[f"{name}: violation, corrected"] = max(right, 0.0)
    judged = [pair[0 if name == misprint else 1] for name, pair in amounts.items()]
    missed_too = any(amount > ROUNDING for amount in judged)
    shows = {name: printed > ROUNDING for name, (printed, _) in amounts.items()}
    return holds_if(
        held and not missed_too, evidence, "A corrected statement is violated too." if missed_too else "", shows=shows
    )
