"""Phase diagrams of the exact success of Deng, Song, Yuan and Zhou's networks: over (a0, a1), and over (n, d)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from separatrix.claims.ledger import CellResult, Finding, Interval, Neighbour, Verdict, claim
from separatrix.errors import ArgumentError
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.decimals import Number, log_width
from separatrix.separation.phase import phase
from separatrix.separation.self_attention import SelfAttention

SETTINGS = ("self-attention, identity", "self-attention, ones", "cross-attention")
LEVEL = 0.5
HIGH = 0.9
_A0 = tuple(round(0.04 * k, 2) for k in range(31))
_A1 = tuple(round(0.06 * k, 2) for k in range(1, 51))
_FINE = Decimal("0.005")
_LOG_N = (*range(6, 21), *range(22, 41, 2), *range(45, 101, 5))
_LOG_CLASSES = tuple(range(10))
LARGEST_A0 = {"self-attention, identity": 0.1, "self-attention, ones": 0.1, "cross-attention": 0.1}
LEAST_A1 = {"self-attention, identity": 1.0, "self-attention, ones": 0.7, "cross-attention": 1.0}
"""The least a_1 in the theorems: E.4, D.1 (to which 6.2 refers), and F.1."""


def setting_of(
    name: str, n: int, classes: int, m: int, a0: Number, a1: Number = Decimal("1.2")
) -> SelfAttention | CrossAttention:
    """The setting of this name, with b = 0.2 and c = 0.8, also outside the ranges of the definitions."""
    if name not in SETTINGS:
        raise ArgumentError("setting", expected=" or ".join(SETTINGS), got=repr(name))
    if name == "cross-attention":
        return CrossAttention(n, classes + 1, m, a0=a0, a1=a1, strict=False)
    weights = name.removeprefix("self-attention, ")
    return SelfAttention(n, classes + 2, m, a0=a0, a1=a1, b="0.2", c="0.8", weights=weights, strict=False)


@experiment(version=1, name="beyond.phase_signal")
def over_signal(
    setting: str, n: int, classes: int, m: int, a0: list[float], a1: list[float], level: float, seed: int
) -> dict[str, Any]:
    """Return the success by a0 and a1, and the least a1 that reaches the level for each a0."""
    fine = [_FINE * k for k in range(1, int(Decimal(str(a1[-1])) / _FINE) + 1)]
    columns = [setting_of(setting, n, classes, m, value) for value in a0]
    diagram = phase(columns, "a1", a1, level, candidates=fine)
    return {
        "success": [list(column) for column in diagram.success],
        "linear_silent": [[probability.lin_silent_on_d1 for probability in column] for column in diagram.columns],
        "edge": [None if edge.value is None else float(edge.value) for edge in diagram.edges],
        "at_edge": [edge.success for edge in diagram.edges],
        "before_edge": [edge.success_before for edge in diagram.edges],
    }


@experiment(version=1, name="beyond.phase_size")
def over_size(setting: str, log2_n: list[int], log2_classes: list[int], level: float, seed: int) -> dict[str, Any]:
    """Return the success by n = 2^i and d - 2 (or d - 1) = 2^j <= n, and the least d that reaches the level."""
    extra = 1 if setting == "cross-attention" else 2
    a1 = 3 if setting == "cross-attention" else Decimal("1.2")
    success, edges = [], []
    for i in log2_n:
        m = log_width(2**i, "0.01", 1 if setting == "cross-attention" else 15)
        widths = [2**j + extra for j in log2_classes if j <= i]
        diagram = phase([setting_of(setting, 2**i, 1, m, Decimal("0.01"), a1)], "d", widths, level)
        success.append([*diagram.success[0], *[None] * (len(log2_classes) - len(widths))])
        edges.append(diagram.edges[0].value)
    return {"success": success, "edge": edges}


def _signal() -> Iterator[Cell]:
    for setting in SETTINGS:
        cross = setting == "cross-attention"
        sizes = {"classes": 10, "m": 9} if cross else {"classes": 20, "m": 15}
        yield over_signal.cell(seed=0, setting=setting, n=200, a0=list(_A0), a1=list(_A1), level=LEVEL, **sizes)


def _size() -> Iterator[Cell]:
    for setting in SETTINGS:
        for level in (LEVEL, HIGH):
            grid = {"log2_n": list(_LOG_N), "log2_classes": list(_LOG_CLASSES)}
            yield over_size.cell(seed=0, setting=setting, level=level, **grid)


@claim(
    where="Phase diagram",
    part="a0 and a1",
    says="At the paper's sizes the probability of success does not depend on $a_0$ up to 0.1, the theorems' bound, "
    "and hardly up to three times that. It reaches one half at an $a_1$ below that of the theorems. In "
    "self-attention it falls again as $a_1$ grows, because then linear attention fires too.",
    cells=_signal,
    figures=("phase_over_signal",),
    neighbours=(Neighbour("reaches one half at an a1 below a third of the theorems'", {"factor": 1 / 3}),),
)
def over_a0_and_a1(cells: Sequence[CellResult], factor: float = 1.0) -> Finding:
    numbers: dict[str, float | str | Interval] = {}
    conditions: list[bool] = []
    for cell in cells:
        name, a0, a1 = cell.parameters["setting"], cell.parameters["a0"], cell.parameters["a1"]
        columns, edges = cell.result["success"], cell.result["edge"]
        inside = [column for value, column in zip(a0, columns, strict=True) if value <= LARGEST_A0[name]]
        moved = max(abs(x - y) for column in inside for x, y in zip(column, inside[0], strict=True))
        reached = [value for value, edge in zip(a0, edges, strict=True) if edge is not None]
        moves = (value for value, edge in zip(a0, edges, strict=True) if edge is None or abs(edge - edges[0]) > 0.03)
        same = next(moves, math.inf)
        peak = max(range(len(a1)), key=lambda at: columns[0][at])
        last, linear = columns[0][-1], cell.result["linear_silent"][0]
        numbers |= {
            f"{name}: success changes with a0 <= {LARGEST_A0[name]:g} by": moved,
            f"{name}: least a1 for success {LEVEL:g}": edges[0],
            f"{name}: this a1 changes by more than 0.03 only from a0 =": same,
            f"{name}: largest a0 with success {LEVEL:g} anywhere": max(reached),
            f"{name}: largest success, at a0 = 0": (
                f"{columns[0][peak]:.3g} at a1 = {a1[peak]:g}; at a1 = {a1[-1]:g}, {last:.3g}"
            ),
        }
        conditions += [
            moved < 1e-12,
            edges[0] < factor * LEAST_A1[name],
            same > 3 * LARGEST_A0[name],
            _edges_agree(cell),
        ]
        if name != "cross-attention":
            # Success is at most the probability that linear attention is silent, and this probability decreases.
            conditions += [last < 0.6 * columns[0][peak], linear[-1] < 0.6 * linear[peak], last <= linear[-1]]
    return Finding(Verdict.HOLDS if all(conditions) else Verdict.FAILS_AS_PRINTED, numbers)


def _edges_agree(cell: CellResult) -> bool:
    """Whether the level is reached at the edge, not just below it, and nowhere on the grid below it."""
    level, a1 = cell.parameters["level"], cell.parameters["a1"]
    for column, edge, at, before in zip(
        *(cell.result[name] for name in ("success", "edge", "at_edge", "before_edge")), strict=True
    ):
        below = [success for value, success in zip(a1, column, strict=True) if edge is None or value < edge]
        if any(success >= level for success in below) or (edge is not None and not at >= level > before):
            return False
    return True


def edge_at(cell: CellResult, log2_n: int) -> int | None:
    """The least d that reaches the level at n = 2^log2_n; None if none does."""
    edge: int | None = cell.result["edge"][cell.parameters["log2_n"].index(log2_n)]
    return edge


@claim(
    where="Phase diagram",
    part="n and d",
    says="With the paper's $m$, the probability of success at a fixed width falls as $n$ grows, and a small "
    "increase of the width makes up for it: from $n = 2^{10}$ to $2^{100}$ the least number of classes, among the "
    "powers of two, for a probability of 0.9 no more than doubles.",
    cells=_size,
    figures=("phase_over_size",),
    neighbours=(Neighbour("the least number of classes does not grow at all", {"times": 1}),),
)
def over_n_and_d(cells: Sequence[CellResult], times: int = 2) -> Finding:
    numbers: dict[str, float | str | Interval] = {}
    conditions: list[bool] = []
    narrow = _LOG_CLASSES.index(3)
    for cell in cells:
        if cell.parameters["level"] != HIGH:
            continue
        name, grid = cell.parameters["setting"], cell.result["success"]
        first, last = grid[_LOG_N.index(10)][narrow], grid[-1][narrow]
        extra = 1 if name == "cross-attention" else 2
        classes = [edge - extra if (edge := edge_at(cell, i)) else None for i in _LOG_N if i >= 10]
        numbers |= {
            f"{name}: success with 8 classes at n = 2^10 and 2^100": f"{first:.3g} and {last:.3g}",
            f"{name}: least d for {HIGH:g}": ", ".join(
                f"{edge_at(cell, i)} at n = 2^{i}" for i in (8, 10, 20, 40, 60, 100)
            ),
        }
        reached = [number for number in classes if number is not None]
        doubles = len(reached) == len(classes) and max(reached) <= times * reached[0]
        conditions += [last < first, doubles, grid[-1][-1] > 0.99]
    return Finding(Verdict.HOLDS if all(conditions) else Verdict.FAILS_AS_PRINTED, numbers)
