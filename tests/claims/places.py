"""How the name of a file gives the places of a paper.

A stem is one or several parts with ``_and_`` between them. A part is the kind of place, its number, and, for a range,
``_to_`` and the last number; a further word may distinguish files about one place. Letters are lower case, and every
character that is neither a letter nor a digit becomes an underscore. A part without a kind has the kind of the part
before.

========================== ====================================
``theorem_1_4``            Theorem 1.4
``theorem_1_4_growth``     Theorem 1.4
``lemmas_d_2_to_d_4``      Lemma D.2, Lemma D.3, Lemma D.4
``figures_1_to_7``         Figure 1 to Figure 7
``claims_c_3_and_c_5``     Claim C.3, Claim C.5
``equation_6``             Equation (6)
========================== ====================================
"""

from __future__ import annotations

import re

_NUMBER = r"(?:[a-z]_)?\d+(?:_\d+)*|[a-z]"
_PART = re.compile(rf"(?:(?P<kind>[a-z]{{2,}})_)?(?P<first>{_NUMBER})(?:_to_(?P<last>{_NUMBER}))?(?:_[a-z]{{2,}})*")


def tells(stem: str, where: str) -> bool:
    """Whether the name of a file gives a place.

    >>> tells("lemmas_d_2_to_d_4", "Lemma D.3"), tells("lemmas_d_2_to_d_4", "Lemma D.10")
    (True, False)
    """
    wanted_kind, _, wanted = re.sub(r"[^a-z0-9]+", "_", where.lower()).strip("_").partition("_")
    kind = ""
    for part in stem.split("_and_"):
        match = _PART.fullmatch(part)
        if match is None:
            return False
        kind = match["kind"] or kind
        first, last = _order(match["first"]), _order(match["last"] or match["first"])
        if kind in (wanted_kind, f"{wanted_kind}s") and first <= _order(wanted) <= last:
            return True
    return False


def _order(number: str) -> tuple[str, tuple[int, ...]]:
    """A key that sorts places as a paper does: sections by number, then appendices by letter."""
    letter, *rest = re.findall(r"[a-z]|\d+", number)
    return (letter, tuple(map(int, rest))) if letter.isalpha() else ("", (int(letter), *map(int, rest)))
