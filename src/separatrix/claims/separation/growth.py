"""The growth of d with n that the theorems need: exact probabilities along paths d(n), n to 10^300 and d to 10^6.

n is the least multiple of g that is at least 10^k, delta = 0.01, and m = C log(n / delta), rounded up, where C is
`width`. The paths are in `separatrix.separation.paths`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.paths import ALLOWED, DELTA, classes, passes, power_of_ten, setting
from separatrix.separation.results import PARTS

_LARGEST_G, _LARGEST_K = 10**6, 300

_EXPONENTS = (*range(1, 20), *range(20, 60, 2), *range(60, _LARGEST_K + 1, 10))


@experiment(version=1, name="separation.path")
def along(model: str, path: str, width: float, seed: int) -> dict[str, list[Any]]:
    """Return log10 n, g, m, the success probability, and log10 of the failure probability of each part, along a path.

    A `width` of 0 means m = 1. `broken` are the hypotheses that every point violates.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("log10_n", "g", "m", "probability", *PARTS)}
    broken: set[str] | None = None
    for k in _EXPONENTS:
        g = classes(path, k)
        if g > _LARGEST_G:
            break
        n = -(-(10**k) // g) * g
        m = max(1, math.ceil(width * math.log(n / DELTA)))
        network = setting(model, n, g, m)
        failures = network.log10_failure()
        row = (math.log10(n), g, m, network.success_probability().success, *astuple(failures))
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
        here = {str(hypothesis) for hypothesis in network.broken_hypotheses()}
        broken = here if broken is None else broken & here
    return {**columns, "broken": sorted(broken or ())}


def cells(model: str, paths: Sequence[str], width: float) -> Iterator[Cell]:
    """The cells of a model, one for each path."""
    for path in paths:
        yield along.cell(seed=0, model=model, path=path, width=width)


FIXED = Neighbour("with $d$ fixed, too", {"also": "10"})


def paths_finding(cells: Sequence[CellResult], note: str, also: str = "") -> Finding:
    """Return `holds asymptotically` if success stays above 0.99 from some n on, along allowed paths and along `also`.

    At fixed d success must not stay above 0.99, unless that is the path `also`.
    """
    numbers: dict[str, float | str] = {}
    good = True
    for cell in cells:
        model, path, result = cell.parameters["model"], cell.parameters["path"], cell.result
        allowed = path in (*ALLOWED[model], also)
        reached = passes(result)
        good &= not allowed or reached is not None
        good &= path != "10" or path == also or reached is None
        kind = "allowed" if allowed else "not allowed"
        to = f"{power_of_ten(reached)}; {result['probability'][-1]:.4f} at n = 10^{result['log10_n'][-1]:.0f}"
        numbers[f"{model}, g = {path} ({kind}): success >= 0.99 from"] = to
    if not good:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers, "An allowed path does not reach 0.99, or a fixed d does.")
    return Finding(Verdict.HOLDS_ASYMPTOTICALLY, numbers, note)
