# ruff: noqa: RUF001  -- these signs of Unicode are intended
"""The names that a formula of the ledger may use, and the signs of Unicode that they stand for."""

from __future__ import annotations

import unicodedata
from enum import StrEnum


class Kind(StrEnum):
    """The kind of a sign, which determines its spacing."""

    LETTER = "letter"
    SYMBOL = "symbol"
    RELATION = "relation"
    BINARY = "binary"
    LARGE = "large"
    OPEN = "open"
    CLOSE = "close"
    SPACE = "space"


_SMALL = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi"
_GREEK = f"{_SMALL} omega"
_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
_NAMED = {"lambda": "lamda"}


def _greek(name: str) -> str:
    size = "CAPITAL" if name[0].isupper() else "SMALL"
    return unicodedata.lookup(f"GREEK {size} LETTER {_NAMED.get(name.lower(), name.lower()).upper()}")


SYMBOLS: dict[str, tuple[str, Kind]] = {
    **{name: (_greek(name), Kind.LETTER) for name in f"{_GREEK} {_CAPITALS}".split()},
    "ell": ("ℓ", Kind.LETTER),
    "infty": ("∞", Kind.SYMBOL),
    "top": ("⊤", Kind.SYMBOL),
    "ast": ("∗", Kind.SYMBOL),
    "dots": ("…", Kind.SYMBOL),
    "ldots": ("…", Kind.SYMBOL),
    "cdots": ("⋯", Kind.SYMBOL),
    "partial": ("∂", Kind.SYMBOL),
    "nabla": ("∇", Kind.SYMBOL),
    "emptyset": ("∅", Kind.SYMBOL),
    "le": ("≤", Kind.RELATION),
    "ge": ("≥", Kind.RELATION),
    "ll": ("≪", Kind.RELATION),
    "gg": ("≫", Kind.RELATION),
    "ne": ("≠", Kind.RELATION),
    "approx": ("≈", Kind.RELATION),
    "sim": ("∼", Kind.RELATION),
    "in": ("∈", Kind.RELATION),
    "notin": ("∉", Kind.RELATION),
    "subset": ("⊂", Kind.RELATION),
    "to": ("→", Kind.RELATION),
    "mapsto": ("↦", Kind.RELATION),
    "mid": ("∣", Kind.RELATION),
    "perp": ("⊥", Kind.RELATION),
    "times": ("×", Kind.BINARY),
    "cdot": ("⋅", Kind.BINARY),
    "circ": ("∘", Kind.BINARY),
    "odot": ("⊙", Kind.BINARY),
    "otimes": ("⊗", Kind.BINARY),
    "oslash": ("⊘", Kind.BINARY),
    "ominus": ("⊖", Kind.BINARY),
    "pm": ("±", Kind.BINARY),
    "cup": ("∪", Kind.BINARY),
    "cap": ("∩", Kind.BINARY),
    "sum": ("∑", Kind.LARGE),
    "prod": ("∏", Kind.LARGE),
    "langle": ("⟨", Kind.OPEN),
    "rangle": ("⟩", Kind.CLOSE),
    "lvert": ("|", Kind.OPEN),
    "rvert": ("|", Kind.CLOSE),
    "lVert": ("‖", Kind.OPEN),
    "rVert": ("‖", Kind.CLOSE),
    "lbrace": ("{", Kind.OPEN),
    "rbrace": ("}", Kind.CLOSE),
    "lceil": ("⌈", Kind.OPEN),
    "rceil": ("⌉", Kind.CLOSE),
    "lfloor": ("⌊", Kind.OPEN),
    "rfloor": ("⌋", Kind.CLOSE),
    "quad": (" ", Kind.SPACE),
}
"""The signs by their names in LaTeX."""

FUNCTIONS = frozenset({"exp", "log", "ln", "max", "min", "Pr", "gcd", "lim", "sup", "inf", "arg"})
"""Functions whose names are written upright."""

ACCENTS = {"tilde": "\u0303", "hat": "\u0302", "bar": "\u0304"}
"""The accents, as combining characters for the preceding letter."""

DELIMITERS = {name: sign for name, (sign, kind) in SYMBOLS.items() if kind in (Kind.OPEN, Kind.CLOSE)}
"""Brackets that may follow ``left`` and ``right``, in addition to round and square brackets."""

_ALPHABETS = {"mathbb": "DOUBLE-STRUCK", "mathcal": "SCRIPT", "mathbf": "MATHEMATICAL BOLD"}
ALPHABETS = frozenset(_ALPHABETS)
"""Alphabets from which a formula may use single letters or digits."""


def lettered(alphabet: str, character: str) -> str:
    """A letter or digit of another alphabet.

    >>> ascii(lettered("mathbb", "R"))
    "'\\\\u211d'"
    """
    if len(character) != 1 or not character.isalnum():
        raise ValueError(f"{alphabet} has single letters and digits, not {character}")
    kind = unicodedata.name(character).removeprefix("LATIN ").replace("LETTER ", "")
    style = _ALPHABETS[alphabet]
    for name in (f"{style} {kind}", f"MATHEMATICAL {style} {kind}"):
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    raise ValueError(f"{alphabet} has no {character}")
