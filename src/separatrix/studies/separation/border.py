r"""The exact border of the separation with QK^T = 1: the threshold of a_1 for linear attention, and the smallest m.

On D1 all rows of linear attention are alike. In units of sqrt(log n), with s the signs of a column of y,

    <c, s> = s_1 kappa + s_d c + N,    kappa = a_1 (1 + a_1) / (n + a_1),

where N, the sum over the g = d - 2 classes, has the coefficients b (t + a_1) / (n + a_1), once, and b t / (n + a_1). So
F_lin is silent for kappa below 0.1 and fires for kappa above it, for every n; `docs/derivations/proofs.md` has the
proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.separation.extended import log10
from separatrix.separation.paths import DELTA
from separatrix.separation.row_events import one_row
from separatrix.separation.self_attention import SelfAttention

_MARGIN = Fraction(1, 10)
"""The difference tau - c, in units of sqrt(log n)."""
_FACTORS = ("1/2", "9/10", "98/100", "999/1000", "1001/1000", "102/100", "11/10", "2")
"""The values of a_1, in units of its value on the border."""


def a1_on_the_border(n: int) -> Fraction:
    """The positive root of a_1 (1 + a_1) = (n + a_1) / 10, to twelve decimal places, rounded down.

    >>> float(a1_on_the_border(1000))
    9.560119879402
    """
    scale = 10**12
    root = math.isqrt((81 + 40 * n) * scale**2)  # of (0.9^2 + 0.4 n) * 100, times the scale
    return Fraction(root - 9 * scale, 20 * scale)


@experiment(version=1, name="beyond.linear_border")
def linear_share(n: int, g: int, b: str, factor: str, seed: int) -> dict[str, Any]:
    """Return log10 of the share of sign vectors on which F_lin fires on D1, kappa - 1/10, and the variance of N.

    a_1 is
    `factor` times its value on the border, and c = 1 - b. The computation is deterministic.
    """
    B = Fraction(b)
    a1, t = Fraction(factor) * a1_on_the_border(n), n // g
    row = one_row("ones", "lin", "special", n=n, g=g, a=str(a1), tau=str(1 - B + _MARGIN), b=b, c=str(1 - B))
    variance = B**2 * ((t + a1) ** 2 + (g - 1) * t**2) / (n + a1) ** 2
    kappa = a1 * (1 + a1) / (n + a1)
    return {"share": float(log10(row.exceeds())), "beyond": float(kappa - _MARGIN), "variance": float(variance)}


@experiment(version=1, name="beyond.width_border")
def width(n: int, g: int, a1: str, seed: int) -> dict[str, Any]:
    """Return log10 P[F_exp = 0] on D1 for the smallest m with (3/4)^m <= delta / n, and for m - 1.

    Here b = 0.2, c = 0.8 and delta = 0.01; the computation is deterministic.
    """
    m = math.ceil((math.log(n) - math.log(DELTA)) / math.log(4 / 3))
    settings = (
        SelfAttention(n, g + 2, size, a0="0.01", a1=Fraction(a1), b="0.2", c="0.8", weights="ones")
        for size in (m, m - 1)
    )
    enough, fewer = (setting.log10_failure().exp_fires_on_d1 for setting in settings)
    return {"m": m, "enough": enough, "fewer": fewer, "allowed": math.log10(DELTA) - math.log10(n)}


@claim(
    paper="beyond",
    where="Border of the separation",
    part="a1 of linear attention",
    says=r"With $Q K^\top = \mathbf{1}$ and $\tau = (c + 0.1) \sqrt{\log n}$, let $\kappa = a_1 (1 + a_1) / (n + a_1)$ "
    r"and let $\sigma^2$ be the sum of the squares of the classes' entries of a row of linear attention on "
    r"$\mathcal{D}_1$, divided by $\log n$. If $\kappa < 0.1$, a sign vector makes $F_{\text{lin}}$ positive with a "
    r"chance of at most $\exp(-(0.1 - \kappa)^2 / (2 \sigma^2))$; if $\kappa > 0.1$, with a chance of at least $1/8$. "
    "This is so for every $n$ and $d$: the border is at $a_1 (1 + a_1) = 0.1 (n + a_1)$.",
    cells=cell_grid(
        linear_share,
        {
            "n g": ((100, 10), (100, 50), (10**4, 100), (10**6, 10), (10**8, 1000), (10**40, 10**5)),
            "b": ("0.1", "0.2", "0.9"),
            "factor": _FACTORS,
        },
    ),
    figures=("linear_border",),
    proof="The border of linear attention",
    neighbours=(
        Neighbour(r"the border is at $\kappa = 0.101$", {"border": 0.101}),
        Neighbour(r"the border is at $\kappa = 0.099$", {"border": 0.099}),
        Neighbour("a chance of at least $1/7$ beyond the border", {"least": 1 / 7}),
        Neighbour(r"a chance of at most $\exp(-(0.1 - \kappa)^2 / \sigma^2)$ before it", {"twice": 1.0}),
    ),
)
def linear_border(
    cells: Sequence[CellResult], border: float = 0.1, least: float = 1 / 8, twice: float = 2.0
) -> Finding:
    """Check Hoeffding's bound below the border and the bound 1/8 above it, in every cell."""
    before, beyond = [], []
    for cell in cells:
        distance = cell.result["beyond"] + 0.1 - border
        if distance < 0:
            bound = -(distance**2) / (twice * cell.result["variance"]) / math.log(10)
            before.append(cell.result["share"] - bound)
        else:
            beyond.append(10 ** cell.result["share"])
    numbers = {
        "settings before the border": len(before),
        "log10 of share / bound before it, largest": max(before),
        "settings beyond it": len(beyond),
        "share beyond it, least": min(beyond),
        "share beyond it, largest": max(beyond),
    }
    return holds_if(max(before) <= 1e-9 and min(beyond) >= least - 1e-12, numbers)


@claim(
    paper="beyond",
    where="Border of the separation",
    part="m of softmax attention",
    says=r"With $Q K^\top = \mathbf{1}$, $b = 0.2$, $c = 0.8$ and $0.7 \le a_1 < 1$, softmax attention fires on a "
    r"quarter of the sign vectors on $\mathcal{D}_1$. The least $m$ for which $F_{\text{exp}} = 0$ has a chance of at "
    r"most $\delta / n$ is $\log(n / \delta) / \log(4/3)$, rounded up.",
    cells=cell_grid(
        width, {"n g": ((10**4, 100), (10**8, 100), (10**16, 1000), (10**100, 1000)), "a1": ("0.7", "0.9")}
    ),
    figures=("width_border",),
    neighbours=(Neighbour("one sign vector less is enough", {"which": "fewer"}),),
)
def width_border(cells: Sequence[CellResult], which: str = "enough") -> Finding:
    spare = [cell.result["allowed"] - cell.result[which] for cell in cells]
    short = [cell.result["fewer"] - cell.result["allowed"] for cell in cells]
    numbers = {
        "settings": len(cells),
        "log10 of delta / n over the chance, least": min(spare),
        "log10 of the chance with one sign vector less over delta / n, least": min(short),
    }
    return holds_if(min(spare) >= 0 and min(short) > 0, numbers)
