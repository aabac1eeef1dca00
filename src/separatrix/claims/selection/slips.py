"""How a misprint is judged: by how much the printed statement is missed, and by how much the right one is.

A cell's result has, under the name of each slip, the pair [printed, right]: the amounts by which the two are missed,
not above zero where they hold. A slip counts when the printed form is missed in some cell and the right one in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from separatrix.claims.ledger import Erratum, Finding, Found, Verdict

ROUNDING = 1e-9
"""What float64 may miss by in these formulas, whose terms are of order one."""


def missed(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """The worst of several [printed, right] pairs.

    >>> missed([(0.5, -1.0), (-2.0, -0.25)])
    [0.5, -0.25]
    """
    listed = list(pairs)
    return [max(pair[at] for pair in listed) for at in (0, 1)]


def worst(found: Sequence[Found], name: str) -> tuple[float, float]:
    """The largest amounts by which the printed and the right form of a slip are missed, over the cells that have it."""
    pairs = [one.result[name] for one in found if name in one.result]
    printed, right = missed(pairs)
    return printed, right


def judged(
    found: Sequence[Found], slips: Mapping[str, Erratum], numbers: Mapping[str, float | str] | None = None
) -> Finding:
    """The verdict on a claim whose only faults are its slips."""
    amounts = {name: worst(found, name) for name in slips}
    told: dict[str, float | str] = dict(numbers or {})
    for name, (printed, right) in amounts.items():
        told[f"{name}: missed by, as printed"] = printed
        told[f"{name}: missed by, corrected"] = max(right, 0.0)
    if any(right > ROUNDING for _, right in amounts.values()):
        return Finding(Verdict.FAILS_AS_PRINTED, told, "The correction is missed too.")
    shown = [name for name, (printed, _) in amounts.items() if printed > ROUNDING]
    if not shown:
        return Finding(Verdict.HOLDS, told)
    if len(shown) < len(slips):
        return Finding(Verdict.UNDECIDED, told, f"No cell shows the slip: {', '.join(slips.keys() - set(shown))}.")
    return Finding(Verdict.HOLDS_CORRECTED, told)
