"""Misprints that cells measure: by how much the printed statement is missed, and by how much the right one is.

A cell's result has, under the name by which an erratum is shown, the pair [printed, right]: the amounts by which they
are missed, not above zero where they hold. The misprint is shown when the printed form is missed in some cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from separatrix.claims.ledger import Erratum, Finding, Found, Neighbour, holds_if

ROUNDING = 1e-9
"""The largest rounding error of float64 in these formulas, whose terms are of order one."""


def missed(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """The worst of several [printed, right] pairs.

    >>> missed([(0.5, -1.0), (-2.0, -0.25)])
    [0.5, -0.25]
    """
    listed = list(pairs)
    return [max(pair[at] for pair in listed) for at in (0, 1)]


def worst(found: Sequence[Found], name: str) -> tuple[float, float]:
    """The largest amounts by which the printed and the right form are missed, over the cells that have the pair."""
    pairs = [one.result[name] for one in found if name in one.result]
    printed, right = missed(pairs)
    return printed, right


def as_printed(errata: Sequence[Erratum]) -> tuple[Neighbour, ...]:
    """What is printed, as wrong neighbours of what is right: one for each misprint."""
    return tuple(Neighbour(f"{erratum.shown_by}, as printed", {"misprint": erratum.shown_by}) for erratum in errata)


def compared(
    found: Sequence[Found],
    errata: Sequence[Erratum],
    numbers: Mapping[str, float | str] | None = None,
    *,
    held: bool = True,
    misprint: str = "",
) -> Finding:
    """The finding of a check whose misprints are measured in pairs; `held` is whether all else holds.

    With `misprint` the form that is printed is judged in the place of the right one.
    """
    amounts = {erratum.shown_by: worst(found, erratum.shown_by) for erratum in errata}
    told: dict[str, float | str] = dict(numbers or {})
    for name, (printed, right) in amounts.items():
        told[f"{name}: missed by, as printed"] = printed
        told[f"{name}: missed by, corrected"] = max(right, 0.0)
    judged = [pair[0 if name == misprint else 1] for name, pair in amounts.items()]
    missed_too = any(amount > ROUNDING for amount in judged)
    shows = {name: printed > ROUNDING for name, (printed, _) in amounts.items()}
    return holds_if(held and not missed_too, told, "A correction is missed too." if missed_too else "", shows=shows)
