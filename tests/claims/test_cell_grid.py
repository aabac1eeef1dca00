"""The cells of a grid: all combinations in the order of nested loops, with shared parameters and seeds."""

from __future__ import annotations

import pytest

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.errors import ArgumentError
from separatrix.lab.registry import experiment


@experiment(version=3, name="tests.cell_grid")
def volume(n: int, d: int, scale: float, seed: int) -> dict[str, float]:
    return {"volume": scale * n * d}


def test_cells_are_those_of_nested_loops() -> None:
    grid = cell_grid(volume, {"scale": (0.5, 2.0), "n d": ((1, 2), (3, 4)), "seed": range(2)})
    loops = [
        volume.cell(seed=seed, n=n, d=d, scale=scale)
        for scale in (0.5, 2.0)
        for n, d in ((1, 2), (3, 4))
        for seed in range(2)
    ]
    assert list(grid()) == loops
    assert list(grid()) == loops  # A claim creates its cells more than once.


def test_fixed_parameters_and_the_seed_are_shared() -> None:
    assert list(cell_grid(volume, {"n": (1, 2)}, seed=7, d=3, scale=1.0)()) == [
        volume.cell(seed=7, n=n, d=3, scale=1.0) for n in (1, 2)
    ]


def test_joined_grids_follow_each_other() -> None:
    grids = [cell_grid(volume, {"n": (1, 2)}, d=d, scale=1.0) for d in (5, 4)]
    both = joined(*grids)
    assert list(both()) == list(both()) == [*grids[0](), *grids[1]()]


def test_a_point_of_another_length_than_its_axis_is_an_error() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        list(cell_grid(volume, {"n d": ((1, 2, 3),)}, scale=1.0)())


def test_an_unknown_parameter_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="width"):
        list(cell_grid(volume, {"n d width": ((1, 2, 3),)}, scale=1.0)())
