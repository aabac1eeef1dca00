"""Exact probabilities of single rows, against all sign vectors."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
import torch
from torch import Tensor

from separatrix.errors import ArgumentError
from separatrix.separation.datasets import cross_attention_input, self_attention_input
from separatrix.separation.row_events import one_row
from tests.separation.definition import attention_by_definition


def enumerated(row: Tensor, tau: float, last: int | None) -> tuple[float, float]:
    """P[>= tau] and P[> tau] over all sign vectors; no sum is close to tau."""
    signs = torch.tensor(list(product((1.0, -1.0), repeat=len(row))), dtype=torch.float64)
    if last is not None:
        signs = signs[signs[:, -1] == last]
    sums = signs @ row
    assert (sums - tau).abs().min() > 1e-9
    return float((sums >= tau).double().mean()), float((sums > tau).double().mean())


ROWS = [
    ("ones", "exp", "special", 12, 6),
    ("ones", "exp", "other", 12, 6),
    ("ones", "lin", "special", 20, 7),
    ("ones", "lin", "other", 20, 7),
    ("identity", "exp", "special", 12, 6),
    ("identity", "exp", "own class", 12, 6),
    ("identity", "exp", "other class", 21, 9),
    ("identity", "lin", "special", 12, 6),
    ("identity", "lin", "own class", 12, 6),
    ("identity", "lin", "other class", 14, 9),
    ("identity", "exp", "special", 7, 3),
    ("cross", "exp", "special", 12, 5),
    ("cross", "exp", "other", 12, 5),
    ("cross", "lin", "special", 24, 9),
    ("cross", "lin", "other", 6, 7),
]


@pytest.mark.parametrize(("model", "network", "row", "n", "d"), ROWS)
@pytest.mark.parametrize("tau", ["0.897", "0.413", "-0.257", "1.871"])
def test_the_probability_of_a_row_is_that_over_all_sign_vectors(model, network, row, n, d, tau) -> None:
    g = d - 1 if model == "cross" else d - 2
    j = 2
    if model == "cross":
        data, unit, last_signs = cross_attention_input(n, d, 1.7, 0, j), 1.0, (None,)
        W, j0 = torch.eye(d).double(), 0 if row == "special" else 1
    else:
        data, unit, last_signs = self_attention_input(n, d, 1.1, 0.3, 0.7, j), math.sqrt(math.log(n)), (None, 1, -1)
        W = torch.ones(d, d).double() if model == "ones" else torch.eye(d).double()
        j0 = {"special": j, "own class": j + g, "other class": j + 1, "other": j + 1}[row]
    c = attention_by_definition(data, W, network)[2][j0] / unit
    a = "1.7" if model == "cross" else "1.1"
    row_chances = one_row(model, network, row, n=n, g=g, a=a, tau=tau, b="0.3", c="0.7")
    for last in last_signs:
        reaches, exceeds = enumerated(c, float(tau), last)
        assert float(row_chances.reaches(last)) == pytest.approx(reaches, abs=1e-15)
        assert float(row_chances.exceeds(last)) == pytest.approx(exceeds, abs=1e-15)


def test_a_tie_reaches_and_does_not_exceed() -> None:
    """Outside row j2 the linear weights of cross-attention are 1/n: the first coordinate is 1/n, each class 1/g."""
    n, g = 12, 4
    row = [Fraction(1, n)] + [Fraction(1, g)] * g
    tau = Fraction(1, n) + Fraction(1, 2)
    sums = [sum(s * x for s, x in zip(signs, row, strict=True)) for signs in product((1, -1), repeat=g + 1)]
    row_chances = one_row("cross", "lin", "other", n=n, g=g, a="0.05", tau=str(tau))
    assert float(row_chances.reaches()) == sum(x >= tau for x in sums) / len(sums)
    assert float(row_chances.exceeds()) == sum(x > tau for x in sums) / len(sums)
    assert sum(x == tau for x in sums) > 0


def test_rows_and_classes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ArgumentError, match="row"):
        one_row("identity", "exp", "other class", n=5, g=1, a="1", tau="0.9")
    with pytest.raises(ArgumentError, match="row"):
        one_row("ones", "exp", "own class", n=10, g=5, a="1", tau="0.9")
    with pytest.raises(ArgumentError, match="divisor"):
        one_row("ones", "exp", "special", n=11, g=5, a="1", tau="0.9")
