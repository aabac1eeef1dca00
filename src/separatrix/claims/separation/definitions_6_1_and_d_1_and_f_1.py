"""Definitions 6.1, D.1 and F.1: the data sets of self-attention and of cross-attention, entry by entry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from separatrix.claims.ledger import CellResult, Claim, Finding, Neighbour, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.datasets import cross_attention_input, self_attention_input


@experiment(version=1, name="separation.definition_d_1")
def self_attention(n: int, d: int, a: float, b: float, c: float, special: int, seed: int) -> dict[str, int]:
    """Count the entries of A_1 that differ from the printed columns, and from two wrong versions of them."""
    data = self_attention_input(n, d, a, b, c, special)
    t, root = n // (d - 2), math.sqrt(math.log(n))
    first = torch.zeros(n, 1, dtype=torch.float64)
    first[special, 0] = a
    eye = torch.eye(d - 2, dtype=torch.float64)
    last = c * torch.ones(n, 1, dtype=torch.float64)
    printed = torch.cat([first, b * torch.cat([eye] * t), last], 1)
    turned = torch.cat([first, b * eye.repeat_interleave(t, 0), last], 1)
    return {
        "alike": int(torch.equal(data.A1, data.A2) and torch.equal(data.A2, data.A3)),
        "printed": _differ(data.A1, root * printed),
        "without root": _differ(data.A1, root**2 * printed),
        "turned": _differ(data.A1, root * turned),
    }


@experiment(version=1, name="separation.definition_f_1")
def cross_attention(n: int, d: int, a: float, special_query: int, special: int, seed: int) -> dict[str, int]:
    """Count the entries that differ from Definition F.1, with ones and identities in columns 2 to d as in Lemma F.2."""
    data = cross_attention_input(n, d, a, special_query, special)
    t, log = n // (d - 1), math.log(n)
    A1 = torch.cat([torch.zeros(n, 1), torch.ones(n, d - 1)], 1).double() * log
    A1[special_query, 0] = a * log
    keys = torch.zeros(n, 1, dtype=torch.float64)
    keys[special, 0] = 1
    A2 = torch.cat([keys, torch.cat([torch.eye(d - 1, dtype=torch.float64)] * t)], 1)
    swapped = cross_attention_input(n, d, a, special, special_query)
    return {
        "alike": int(torch.equal(data.A2, data.A3)),
        "printed": _differ(data.A1, A1) + _differ(data.A2, A2),
        "without root": _differ(data.A1, A1 / math.sqrt(log)) + _differ(data.A2, A2),
        "turned": _differ(swapped.A1, A1) + _differ(swapped.A2, A2),
    }


def _differ(x: Tensor, y: Tensor) -> int:
    return int(((x - y).abs() > 1e-12 * (1 + y.abs())).sum())


def _self_cells() -> Iterator[Cell]:
    settings = (
        (6, 5, 0.05, 0.1, 0.9, 0),
        (12, 4, 0.099, 0.9, 0.1, 11),
        (4, 6, 0.7, 0.2, 0.8, 1),
        (9, 3, 3.0, 0.5, 0.5, 4),
    )
    for n, d, a, b, c, special in settings:
        yield self_attention.cell(seed=0, n=n, d=d, a=a, b=b, c=c, special=special)


def _cross_cells() -> Iterator[Cell]:
    for n, d, a, query, special in ((6, 4, 0.05, 0, 5), (8, 5, 1.01, 3, 2), (5, 2, 3.0, 4, 0), (4, 5, 0.099, 1, 2)):
        yield cross_attention.cell(seed=0, n=n, d=d, a=a, special_query=query, special=special)


def _data(where: str, says: str, defines: str, of_self: bool, wrong: Sequence[Neighbour]) -> Claim:
    """Register the definition of a data set: no entry may differ from the printed columns."""

    @claim(
        where=where,
        says=says,
        cells=_self_cells if of_self else _cross_cells,
        defines=(defines,),
        neighbours=wrong,
        home=__name__,
    )
    def check(cells: Sequence[CellResult], columns: str = "printed") -> Finding:
        differ = sum(cell.result[columns] for cell in cells)
        unlike = sum(not cell.result["alike"] for cell in cells)
        numbers = {"elements": len(cells), "entries that differ": differ, "elements whose matrices differ": unlike}
        return holds_if(not differ and not unlike, numbers)

    return check


_WRONG_SELF = (
    Neighbour(r"the columns are multiplied by $\log n$, and not by its root", {"columns": "without root"}),
    Neighbour("the rows of a class are adjacent: each unit row is repeated $t$ times", {"columns": "turned"}),
)
_data(
    "Definition 6.1",
    r"The data sets of self-attention are given informally: $A_1$ is $\sqrt{\log n}$ times a matrix with the column "
    "$a e_{j_3}$, then $b$ times stacked identities, then a column of entries $c$, where $a$ is $a_0$ or $a_1$.",
    "separatrix.separation.datasets.self_attention_input",
    True,
    _WRONG_SELF,
)
_data(
    "Definition D.1",
    "In the data sets of self-attention, $A_1 = A_2 = A_3$ has a special row, the rows of $t$ stacked identities, "
    "and a column of ones.",
    "separatrix.separation.datasets.self_attention_input",
    True,
    _WRONG_SELF,
)
_data(
    "Definition F.1",
    "In the data sets of cross-attention, $A_1$ has a special query $j_2$ and $A_2 = A_3$ has a special key $j_3$. "
    "From the second column on, $A_1$ consists of ones and $A_2$ of stacked identities.",
    "separatrix.separation.datasets.cross_attention_input",
    False,
    (
        Neighbour(r"$A_1$ is multiplied by $\sqrt{\log n}$", {"columns": "without root"}),
        Neighbour("$j_2$ is the key and $j_3$ the query", {"columns": "turned"}),
    ),
)
