"""Convert results of cells to rows, and rows to the columns of a CSV file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from separatrix.claims.ledger import CellResult
from separatrix.report.theme import Value

Results = Sequence[CellResult]
"""The results of the cells of a claim, which are the input of its figures."""
Row = Mapping[str, Any]


def rows_of(results: Iterable[CellResult]) -> list[Row]:
    """One row for each cell: its parameters and the entries of its result."""
    return [{**cell.parameters, **cell.result} for cell in results]


def one_row_per_entry(rows: Iterable[Row], *names: str) -> list[Row]:
    """Split rows whose columns `names` hold sequences of equal length; the other columns are repeated.

    >>> one_row_per_entry([{"d": 2, "n": [8, 16], "flops": [64, 128]}], "n", "flops")
    [{'d': 2, 'n': 8, 'flops': 64}, {'d': 2, 'n': 16, 'flops': 128}]
    """
    return [
        {**row, **dict(zip(names, entries, strict=True))}
        for row in rows
        for entries in zip(*(_listed(row[name]) for name in names), strict=True)
    ]


def _listed(values: Any) -> Sequence[Any]:
    listed: Sequence[Any] = values.tolist() if isinstance(values, np.ndarray) else values
    return listed


def columns_of(rows: Sequence[Row], *names: str) -> dict[str, list[Value]]:
    """The named columns; None where a row does not have the column. A column that no row has is a `KeyError`."""
    for name in names:
        if not any(name in row for row in rows):
            raise KeyError(name)
    return {name: [row.get(name) for row in rows] for name in names}


def columns_from(names: Sequence[str], rows: Iterable[Sequence[Value]]) -> dict[str, list[Value]]:
    """The columns of a table that is given as the names of its columns and its rows.

    >>> columns_from(("n", "flops"), [(8, 64), (16, 128)])
    {'n': [8, 16], 'flops': [64, 128]}
    """
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def groups_of(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows by their values in the named columns, in the order in which the values first appear.

    >>> groups_of([{"d": 1}, {"d": 2}, {"d": 1}], "d")
    {(1,): [{'d': 1}, {'d': 1}], (2,): [{'d': 2}]}
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups
