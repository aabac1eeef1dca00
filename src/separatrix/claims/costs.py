"""The cost of cells in seconds for each experiment, from which a run estimates its remaining time.

``python -m separatrix.claims.costs STORE > src/separatrix/claims/costs.toml`` measures the costs again from a store.
Costs are relative weights; the run itself measures the speed of the machine.

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
    """Return a function that estimates the seconds of a cell; experiments without a record get the mean."""
    known = {name: float(seconds) for name, seconds in tomlfile.load(path).items()}
    usual = sum(known.values()) / len(known)

    def cost(cell: Cell) -> float:
        return known[cell.experiment] * _steps(cell) if cell.experiment in known else usual

    return cost


def _steps(cell: Cell) -> int:
    """The number of training steps of a cell; 1 for cells that do not train."""
    steps = cell.arguments.get("steps")
    return steps if isinstance(steps, int) and steps > 0 else 1


def measured(store: Store) -> str:
    """The measured costs of the cells of a store, in the format of the file: seconds per cell or per training step."""
    seconds_and_steps: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for record in store.records(status="done"):
        seconds_and_steps[record.cell.experiment].append((record.seconds or 0.0, _steps(record.cell)))
    lines = [
        f'"{name}" = {max(1e-9, sum(took for took, _ in pairs) / sum(steps for _, steps in pairs)):.2g}'
        for name, pairs in sorted(seconds_and_steps.items())
    ]
    return "\n".join(
        ["# Seconds per cell, or per step of a cell that trains: `separatrix.claims.costs` measures them.", *lines]
    )


if __name__ == "__main__":
    with Store.open(Path(sys.argv[1])) as opened:
        print(measured(opened))
