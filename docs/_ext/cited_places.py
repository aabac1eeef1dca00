"""The places of the papers: those that claims are about, and those that the library's docstrings cite."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docs._ext.claim_code import PACKAGE

_PLACE = re.compile(
    r"\b(Definition|Theorem|Lemma|Claim|Corollary|Fact|Figure|Algorithm|Conjecture|Hypothesis|Equation)s? "
    r"\(?([A-Z]?\d*(?:\.\d+)?(?:(?:, | and | to |, and )[A-Z]?\.?\d+\.\d+)*)"
)
PLACES = Path(__file__).with_name("places.toml")
_ROOMS = {
    "kronecker": ("attention", "nn", "hardness"),
    "separation": ("separation", "attention/linear.py", "attention/features.py"),
    "selection": ("selection",),
}
"""The folders in which a number without a paper's name refers to this paper; a file listed here belongs to it alone."""


@dataclass(frozen=True)
class Place:
    """A numbered place of a paper without a claim: its content in our words, and the place whose claims cover it."""

    where: str
    says: str
    code: tuple[str, ...] = ()
    see: str | None = None


def places(paper: str) -> list[Place]:
    """The places of a paper that have no claim of their own."""
    table = tomllib.loads(PLACES.read_text()).get(paper, {})
    return [Place(where, row["says"], tuple(row.get("code", ())), row.get("see")) for where, row in table.items()]


@cache
def citing_files(paper: str) -> dict[str, tuple[str, ...]]:
    """The files that cite a place, by place: near_linear/approximation/monomials.py cites "Lemma E.1"."""
    cited: dict[str, set[str]] = {}
    for file in _files(paper):
        for kind, numbers in _PLACE.findall((PACKAGE / file).read_text()):
            for number in re.findall(r"[A-Z]?\.?\d+(?:\.\d+)?", numbers):
                cited.setdefault(f"{kind} {number}", set()).add(file)
    return {place: tuple(sorted(files)) for place, files in cited.items()}


def _files(paper: str) -> list[str]:
    of_others = {room for other, rooms in _ROOMS.items() if other != paper for room in rooms}
    citations = []
    for room in _ROOMS.get(paper, ()):
        start = PACKAGE / room
        within = [start] if start.is_file() else sorted(start.rglob("*.py"))
        citations += [
            name for name in (file.relative_to(PACKAGE).as_posix() for file in within) if name not in of_others
        ]
    return citations
