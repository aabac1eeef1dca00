"""A cell: one point of a grid, and the key under which the store keeps it.

>>> Cell("coin", 1, '{"p":0.5}', 7).key[:12]
'e25a9a8c9ef2'
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from separatrix.lab import plain


@dataclass(frozen=True, slots=True)
class Cell:
    """An experiment's name, its recipe version, its parameters in canonical form, and a seed.

    `Experiment.cell` makes one with every parameter checked and every default written out.
    """

    experiment: str
    version: int
    parameters: str
    seed: int

    @property
    def key(self) -> str:
        """SHA-256, in hex, of the canonical form of the four; it says what the cell is, never what came out."""
        head = plain.canonical([self.experiment, self.version, self.seed])
        return sha256(f"{head}{self.parameters}".encode()).hexdigest()

    @property
    def arguments(self) -> dict[str, Any]:
        """The parameters as the experiment receives them."""
        found: dict[str, Any] = plain.read(self.parameters)
        return found

    def __str__(self) -> str:
        return f"{self.experiment}({self.parameters}, seed={self.seed})"
