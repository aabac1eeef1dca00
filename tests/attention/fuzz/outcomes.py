"""The outcome of a case."""

from __future__ import annotations

from dataclasses import dataclass

from separatrix.attention.checker import Verification

HELD, BROKEN, REFUSED, UNPROMISED = "held", "broken", "refused", "unpromised"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case of some kind.

    `how` is HELD or BROKEN, or REFUSED if the library raised one of its errors, or UNPROMISED if the result has no
    certificate or an infinite one. `ratio` is the largest error over its certificate. `told` describes the case and, if
    it is broken, the failure. `recipes` are the kinds of polynomials that its calls were computed by.
    """

    kind: str
    how: str
    ratio: float = 0.0
    told: str = ""
    recipes: tuple[str, ...] = ()


def judged(kind: str, found: Verification, told: str) -> Outcome:
    """The outcome of a check."""
    if found.held:
        return Outcome(kind, HELD, found.margin, told)
    return Outcome(kind, BROKEN, found.margin, f"{told}\n{found}")
