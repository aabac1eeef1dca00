"""The exact border of the separation: its claims, their mutants, and a literal evaluation of the networks."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
import torch

from separatrix import linear_attention
from separatrix.claims.ledger import Verdict
from separatrix.separation.datasets import self_attention_input
from separatrix.studies.separation import border
from tests.studies.cells import changed, claims_of, given, ran

OURS = claims_of(border)
LINEAR, WIDTH = (f"border-of-the-separation/{part}" for part in ("a1-of-linear-attention", "m-of-softmax-attention"))


@pytest.mark.parametrize(
    ("id", "where", "to"),
    [
        (LINEAR, {"factor": "1001/1000"}, {"share": -1.0}),
        (LINEAR, {"factor": "9/10", "n": 10**40, "b": "0.1"}, {"share": -0.1}),
        (WIDTH, {"a1": "0.7"}, {"enough": 0.0}),
        (WIDTH, {"a1": "0.7"}, {"fewer": -200.0}),
        (WIDTH, {"a1": "0.9", "c": "0.4"}, {"share": 0.36}),
        (WIDTH, {"a1": "2.3", "c": "0.8"}, {"limit": 0.25}),
    ],
)
def test_another_result_is_another_verdict(id: str, where: dict[str, object], to: dict[str, float]) -> None:
    assert OURS[id].check(changed(ran(id), given(**where), **to)).verdict is Verdict.FAILS_AS_PRINTED


@pytest.mark.parametrize("factor", ["1/2", "98/100", "102/100", "2"])
def test_the_share_is_that_of_the_literal_network(factor: str) -> None:
    """The share is that of the 2^7 sign vectors on which the library's linear attention fires, at n = 20 and d = 7."""
    n, g, b = 20, 5, 0.2
    a1 = float(Fraction(factor) * border.a1_on_the_border(n))
    data = self_attention_input(n, g + 2, a1, b, 1 - b, special=7)
    sums = data.A1 @ torch.ones(g + 2, g + 2, dtype=torch.float64)
    rows = linear_attention(sums, data.A2, data.A3)
    signs = torch.tensor(list(product((1.0, -1.0), repeat=g + 2)), dtype=torch.float64)
    tau = (1 - b + 0.1) * torch.tensor(float(n), dtype=torch.float64).log().sqrt()
    fires = ((rows @ signs.mT) > tau).any(0).double().mean()
    result = border.linear_share(n=n, g=g, b="0.2", factor=factor, seed=0)
    assert 10 ** result["share"] == pytest.approx(float(fires), abs=1e-12)
    assert result["beyond"] == pytest.approx(a1 * (1 + a1) / (n + a1) - 0.1, abs=1e-12)


def test_the_share_is_a_quarter_where_the_condition_says_so() -> None:
    """On a grid of a_1 and c without ties, the share of signs is 1/4, 3/8 or 1/2, and 1/4 where the condition holds."""
    shares = set()
    for k, j in product(range(40), range(161)):
        a1, c = Fraction(701 + 53 * k, 1000), Fraction(1000 + 50 * j, 10_000) + Fraction(3, 100_000)
        fires = 1 - border.silent_share(a1, min(c, Fraction(9, 10)))
        shares.add(fires)
        assert (fires == Fraction(1, 4)) == border._is_a_quarter(a1, min(c, Fraction(9, 10)), gap=True)
    assert shares == {Fraction(1, 4), Fraction(3, 8), Fraction(1, 2)}
