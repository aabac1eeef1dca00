r"""The exact border of the separation with QK^T = 1: the threshold of a_1 for linear attention, and the smallest m.

On D1 all rows of linear attention are alike. In units of sqrt(log n), with s the signs of a column of y,

    <c, s> = s_1 kappa + s_d c + N,    kappa = a_1 (1 + a_1) / (n + a_1),

where N, the sum over the g = d - 2 classes, has the coefficients b (t + a_1) / (n + a_1), once, and b t / (n + a_1). So
F_lin is silent for kappa below 0.1 and fires for kappa above it, for every n. Row j_3 of softmax attention has nearly
all of its weight on one key, so that F_exp fires where s_1 a_1 + s_k b + s_d c > c + 0.1, k the column of j_3's class.
`docs/derivations/proofs.md` has both proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.claims.separation.network_theorems import share_at_most
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
    root = math.isqrt((81 + 40 * n) * scale**2)  # the root of (0.9^2 + 0.4 n) * 100, times the scale
    return Fraction(root - 9 * scale, 20 * scale)


@experiment(version=1, name="beyond.linear_border")
def linear_share(n: int, g: int, b: str, factor: str, seed: int) -> dict[str, Any]:
    """Return log10 of the share of sign vectors on which F_lin fires on D1, kappa - 1/10, and the variance of N.

    a_1 is `factor` times its value on the border, and c = 1 - b. The computation is deterministic.
    """
    B = Fraction(b)
    a1, t = Fraction(factor) * a1_on_the_border(n), n // g
    row = one_row("ones", "lin", "special", n=n, g=g, a=str(a1), tau=str(1 - B + _MARGIN), b=b, c=str(1 - B))
    variance = B**2 * ((t + a1) ** 2 + (g - 1) * t**2) / (n + a1) ** 2
    kappa = a1 * (1 + a1) / (n + a1)
    return {"share": float(log10(row.exceeds())), "beyond": float(kappa - _MARGIN), "variance": float(variance)}


@experiment(version=2, name="beyond.width_border")
def width(n: int, g: int, a1: str, c: str, seed: int) -> dict[str, Any]:
    """Return the share of sign vectors on which F_exp fires on D1, and log10 P[F_exp = 0] at the border of m and below.

    With p the limit of the share for large n and g, `m` is the least number of sign vectors with (1 - p)^m <= delta /
    n; `enough` is at m and `fewer` at m - 1. `beyond` is Hoeffding's bound on the share less p. Here b = 1 - c and
    delta = 0.01; the computation is deterministic.
    """
    b = 1 - Fraction(c)
    p = 1 - silent_share(Fraction(a1), Fraction(c))
    m = math.ceil((math.log(n) - math.log(DELTA)) / -math.log1p(-float(p)))
    settings = (
        SelfAttention(n, g + 2, size, a0="0.01", a1=Fraction(a1), b=b, c=c, weights="ones") for size in (m, m - 1, 1)
    )
    enough, fewer, single = (setting.log10_failure().exp_fires_on_d1 for setting in settings)
    t = n // g
    squares = b**2 * ((g - 1) * t**2 + (t - 1) ** 2) / Fraction(n - 1) ** 2
    return {
        "m": m,
        "enough": enough,
        "fewer": fewer,
        "share": 1 - 10**single,
        "limit": float(p),
        "beyond": math.exp(-float(_MARGIN**2 / (2 * squares))),
        "allowed": math.log10(DELTA) - math.log10(n),
    }


def silent_share(a1: Fraction, c: Fraction) -> Fraction:
    """The limit of the share of sign vectors on which F_exp = 0 on D1: those of a_1 s_1 + b s_2 + c s_3 <= c + 0.1.

    >>> [str(1 - silent_share(Fraction(9, 10), Fraction(c))) for c in ("0.8", "0.5", "0.15")]
    ['1/4', '3/8', '1/4']
    """
    return share_at_most([a1, 1 - c, c], c + _MARGIN)


@claim(
    where="Border of the separation",
    part="a1 of linear attention",
    says=r"With $Q K^\top = \mathbf{1}$ and $\tau = (c + 0.1) \sqrt{\log n}$, let $\kappa = a_1 (1 + a_1) / (n + "
    r"a_1)$ and let $\sigma^2$ be the sum of the squares of the classes' entries of a row of linear attention on "
    r"$\mathcal{D}_1$, divided by $\log n$. If $\kappa < 0.1$, a sign vector makes $F_{\text{lin}}$ positive with "
    r"probability at most $\exp(-(0.1 - \kappa)^2 / (2 \sigma^2))$; if $\kappa > 0.1$, with probability at least "
    "$1/8$. This holds for every $n$ and $d$: the border is at $a_1 (1 + a_1) = 0.1 (n + a_1)$.",
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
        Neighbour("a probability of at least $1/7$ beyond the border", {"least": 1 / 7}),
        Neighbour(r"a probability of at most $\exp(-(0.1 - \kappa)^2 / \sigma^2)$ before it", {"twice": 1.0}),
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
    where="Border of the separation",
    part="m of softmax attention",
    says=r"With $Q K^\top = \mathbf{1}$ and $b = 1 - c$, let $p$ be the share of the eight signs with $s_1 a_1 + s_2 "
    r"b + s_3 c > c + 0.1$. As $n$ and $d$ grow, softmax attention fires on $\mathcal{D}_1$ for a share of the sign "
    r"vectors that tends to $p$, and the least $m$ for which $F_{\text{exp}} = 0$ has probability at most $\delta / "
    r"n$ is $\log(n / \delta) / \log \frac{1}{1 - p}$ up to a factor that tends to 1. For $a_1 \ge 0.7$, $p$ is "
    r"$1/4$, $3/8$ or $1/2$. It is $1/4$, and the logarithm $\log(4/3)$, if and only if $c > (a_1 + 0.9) / 3$ or $0.9 "
    "- a_1 < c < 1.1 - a_1$ (where no sum is exactly $c + 0.1$).",
    cells=cell_grid(
        width,
        {
            "n g": ((10**8, 1000), (10**16, 10**4), (10**100, 10**4)),
            "a1 c": (
                *(("0.7", c) for c in ("0.8", "0.45", "0.3", "0.12")),
                *(("0.9", c) for c in ("0.8", "0.4", "0.15")),
                *(("1.2", c) for c in ("0.8", "0.5")),
                *(("2.3", c) for c in ("0.8", "0.5")),
            ),
        },
    ),
    figures=("width_border",),
    proof="The number of sign vectors that softmax attention needs",
    neighbours=(
        Neighbour("one sign vector fewer is enough", {"which": "fewer"}),
        Neighbour("the share is $1/4$ for every $a_1$ and $c$", {"quarter": True}),
        Neighbour(r"it is $1/4$ if and only if $c > (a_1 + 0.9) / 3$", {"gap": False}),
    ),
    history=(
        "Until 2026-11-18 the claim was only about $b = 0.2$, $c = 0.8$ and $a_1 < 1$, in eight cells and without a "
        "proof. There the share is $1/4$; at other $b$ and $c$ it is $3/8$ or $1/2$, and $m$ is smaller.",
    ),
)
def width_border(
    cells: Sequence[CellResult], which: str = "enough", quarter: bool = False, gap: bool = True
) -> Finding:
    """Compare the exact share with the count of signs, and check the probabilities at the border of m, in every cell.

    The share may exceed the count by Hoeffding's bound on the other rows.
    """
    spare = [cell.result["allowed"] - cell.result[which] for cell in cells]
    short = [cell.result["fewer"] - cell.result["allowed"] for cell in cells]
    apart = [cell.result["share"] - (0.25 if quarter else cell.result["limit"]) for cell in cells]
    excess = max(distance - cell.result["beyond"] for distance, cell in zip(apart, cells, strict=True))
    predicted = [_is_a_quarter(Fraction(cell.parameters["a1"]), Fraction(cell.parameters["c"]), gap) for cell in cells]
    wrong = sum((cell.result["limit"] == 0.25) != is_so for cell, is_so in zip(cells, predicted, strict=True))
    numbers: dict[str, float | str] = {
        "settings": len(cells),
        "shares of sign vectors that fire": ", ".join(
            f"{share:g}" for share in sorted({x.result["limit"] for x in cells})
        ),
        "exact share less the limit, least": min(apart),
        "exact share less the limit and the bound on the other rows, largest": excess,
        "settings in which the condition for 1/4 is wrong": wrong,
        "log10 of delta / n over the probability, least": min(spare),
        "log10 of the probability with one sign vector fewer over delta / n, least": min(short),
    }
    near = min(apart) >= -1e-12 and excess <= 1e-12
    return holds_if(near and not wrong and min(spare) >= 0 and min(short) > 0, numbers)


def _is_a_quarter(a1: Fraction, c: Fraction, gap: bool) -> bool:
    """Whether the share is 1/4 at c; `gap` says whether the lower interval is included."""
    return 3 * c > a1 + Fraction(9, 10) or (gap and Fraction(9, 10) - a1 < c < Fraction(11, 10) - a1)
