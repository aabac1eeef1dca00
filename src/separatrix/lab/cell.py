"""A cell, which is one point of a grid, and the key under which the store keeps its result.

>>> Cell("coin", 1, '{"p":0.5}', 7).key[:12]
'e25a9a8c9ef2'
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from separatrix.lab import canonical_json


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a grid: an experiment with its parameters and a seed.

    `Experiment.cell` makes a cell with every parameter checked and every default written out.

    Attributes:
        experiment: the name of the experiment.
        version: the version of the experiment.
        parameters: the parameters in the canonical form of `canonical_json`.
        seed: the seed.
    """

    experiment: str
    version: int
    parameters: str
    seed: int

    @property
    def key(self) -> str:
        """The SHA-256, in hex, of the four attributes in canonical form; it does not depend on the result."""
        head = canonical_json.canonical([self.experiment, self.version, self.seed])
        return sha256(f"{head}{self.parameters}".encode()).hexdigest()

    @property
    def arguments(self) -> dict[str, Any]:
        """The parameters as the experiment receives them."""
        values: dict[str, Any] = canonical_json.read(self.parameters)
        return values

    def __str__(self) -> str:
        return f"{self.experiment}({self.parameters}, seed={self.seed})"
