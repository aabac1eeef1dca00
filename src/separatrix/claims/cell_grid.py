"""The cells of experiments at every combination of some parameters, for the declaration of a claim."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from separatrix.lab.cell import Cell
from separatrix.lab.registry import Experiment


def cell_grid(
    experiment: Experiment, axes: Mapping[str, Collection[Any]], *, seed: int = 0, **fixed: Any
) -> Callable[[], Iterator[Cell]]:
    """Return a function that yields the cells of an experiment at all combinations of its axes.

    Args:
        experiment: The experiment.
        axes: The values of each axis; the last axis varies fastest. A name such as "n d" is an axis of pairs (n, d). An
            axis may be "seed".
        seed: The seed of all cells, unless an axis gives it.
        fixed: The parameters that all cells share.

    Example:
        >>> from separatrix.lab.registry import experiment
        >>> @experiment(version=1, name="docs.areas")
        ... def areas(n: int, d: int, scale: float, seed: int) -> dict[str, float]:
        ...     return {"area": scale * n * d}
        >>> cells = cell_grid(areas, {"n d": ((1, 2), (3, 4)), "scale": (0.5, 2.0)})
        >>> [cell.parameters for cell in cells()][:2]
        ['{"d":2,"n":1,"scale":0.5}', '{"d":2,"n":1,"scale":2.0}']
    """

    def cells() -> Iterator[Cell]:
        for point in product(*axes.values()):
            parameters: dict[str, Any] = {"seed": seed, **fixed}
            for axis, value in zip(axes, point, strict=True):
                names = axis.split()
                parameters |= zip(names, (value,) if len(names) == 1 else value, strict=True)
            yield experiment.cell(**parameters)

    return cells


def joined(*grids: Callable[[], Iterable[Cell]]) -> Callable[[], Iterator[Cell]]:
    """Return a function that yields the cells of several grids, one grid after the other."""
    return lambda: (cell for grid in grids for cell in grid())
