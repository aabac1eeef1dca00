"""What cells cost, so that a run can say how much of it is left: seconds for each experiment, measured once.

``python -m separatrix.claims.costs STORE > src/separatrix/claims/costs.toml`` measures them anew from a store. They are
weights: a machine that is twice as fast is found out by the run itself.

>>> cost = costs()
>>> from separatrix.lab.cell import Cell
>>> short, long = (cost(Cell("selection.heat_maps", 1, f'{{"steps":{steps}}}', 0)) for steps in (1000, 50000))
>>> round(long / short)
50
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from separatrix.lab import tomlfile
from separatrix.lab.cell import Cell
from separatrix.lab.store import Store

COSTS = Path(__file__).with_name("costs.toml")


def costs(path: Path = COSTS) -> Callable[[Cell], float]:
    """A function that gives the seconds a cell takes, about; the mean of all for an experiment without a record."""
    known = {name: float(seconds) for name, seconds in tomlfile.load(path).items()}
    usual = sum(known.values()) / len(known)

    def cost(cell: Cell) -> float:
        return known[cell.experiment] * _steps(cell) if cell.experiment in known else usual

    return cost


def _steps(cell: Cell) -> int:
    """How many steps a cell trains for, which is what it costs; 1 for cells that do not train."""
    steps = cell.arguments.get("steps")
    return steps if isinstance(steps, int) and steps > 0 else 1


def measured(store: Store) -> str:
    """The costs that the cells of a store have had, as the file has them: seconds a cell, or a step where it trains."""
    found: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for record in store.records(status="done"):
        found[record.cell.experiment].append((record.seconds or 0.0, _steps(record.cell)))
    lines = [
        f'"{name}" = {max(1e-9, sum(took for took, _ in ones) / sum(steps for _, steps in ones)):.2g}'
        for name, ones in sorted(found.items())
    ]
    return "\n".join(
        ["# Seconds a cell, or a step of one that trains: `separatrix.claims.costs` measures them.", *lines]
    )


if __name__ == "__main__":
    with Store.open(Path(sys.argv[1])) as opened:
        print(measured(opened))
