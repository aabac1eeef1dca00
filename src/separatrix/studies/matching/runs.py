"""Training runs on matches, grouped by setting over seeds, for claims and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from separatrix.claims.ledger import CellResult


@dataclass(frozen=True)
class Summary:
    """The runs of one attention in one setting; `accuracy` has one value per seed for each entry of `steps`."""

    attention: str
    task: int
    n: int
    modulus: int
    parameters: int
    steps: list[int]
    accuracy: list[list[float]]

    @property
    def seeds(self) -> int:
        return len(self.accuracy[-1])

    @property
    def mean(self) -> float:
        return sum(self.accuracy[-1]) / self.seeds


def summaries(cells: Sequence[CellResult]) -> list[Summary]:
    """A summary for each (task, n, M, attention), sorted by these; seeds are in ascending order."""
    kinds: dict[tuple[int, int, int, str], list[CellResult]] = {}
    for cell in sorted(cells, key=lambda cell: cell.seed):
        task, n, modulus = (cell.parameters[name] for name in ("task", "n", "modulus"))
        kind = task, n, modulus, cell.parameters.get("attention") or f"order {cell.parameters['order']}"
        kinds.setdefault(kind, []).append(cell)
    return [
        Summary(
            attention,
            task,
            n,
            modulus,
            runs[0].result["parameters"],
            list(runs[0].result["step"]),
            [list(values) for values in zip(*(cell.result["accuracy"] for cell in runs), strict=True)],
        )
        for (task, n, modulus, attention), runs in sorted(kinds.items())
    ]
