"""Section 5: the networks of softmax regression (Lemmas 5.1 to 5.4), for every data set of Definition 3.8.

The probabilities are bounded by m times Hoeffding's inequality with sum f_i^2 <= max f_i; for F_exp on D1 they are
exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from separatrix.claims.cell_grid import cell_grid, joined
from separatrix.claims.ledger import (
    CellResult,
    Erratum,
    Finding,
    Neighbour,
    Rank,
    Verdict,
    claim,
    holds_if,
    typographical,
)
from separatrix.claims.separation.lemmas_4_1_and_4_2 import LOG_10, TAU, entry_cells, split
from separatrix.lab.registry import experiment
from separatrix.separation import SoftmaxRegression, log_width
from separatrix.separation.networks import linear_regression, softmax_regression
from separatrix.separation.paths import DELTA, power_of_ten, rare_from

_EXPONENTS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)
_PARTS = ("exp_silent_on_d0", "lin_silent_on_d0", "lin_silent_on_d1", "exp_fires_on_d1")


@experiment(version=2, name="separation.regression_path")
def networks(width: float, falls: float, seed: int) -> dict[str, Any]:
    """Return log10 of the largest failure probability of each part over all data, at n = 10^k.

    Here m is `width` times log(n / delta), and tau is n^-falls / 4, which is the paper's value for `falls` = 0. F_exp
    on D1 fails with probability exactly 2^-m if `falls` is 0. `sample` compares the two networks on one random data
    set.
    """
    columns: dict[str, list[float]] = {name: [] for name in ("log10_n", "m", *_PARTS)}
    for k in _EXPONENTS:
        n = round(10**k) if k % 1 else 10 ** int(k)
        log_n = math.log(n)
        m = math.ceil(width * (log_n - math.log(DELTA)))
        sharpest = {"exp_silent_on_d0": n**-0.6, "lin_silent_on_d0": 1.4 / n, "lin_silent_on_d1": 4 / (n + 3)}
        tau = TAU * n**-falls
        failures = [(math.log(m) - tau**2 / (2 * squares)) / LOG_10 for squares in sharpest.values()]
        row = (log_n / LOG_10, float(m), *(min(x, 0.0) for x in failures), -m * math.log10(2))
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    data, _ = SoftmaxRegression(30, 3).sample(seed)
    y = torch.ones(30, 3, dtype=torch.float64)
    y[::3] = -1
    values = [float(network(data, y, 0.01)) for network in (softmax_regression, linear_regression)]
    return {**columns, "sample": values}


@experiment(version=1, name="separation.regression_at")
def at_size(n: int, seed: int) -> dict[str, float]:
    """Return certified lower bounds on the probabilities at one n of Figure 3, with m = log n and tau = 1/4."""
    low = SoftmaxRegression(n, log_width(n)).success_probability().low
    return {part: getattr(low, part) for part in _PARTS}


_network_cells = joined(
    cell_grid(networks, {"width falls": ((1.0, 0.0), (1.5, 0.0), (1.5, 0.3), (1.5, 0.5))}),
    cell_grid(at_size, {}, n=100),
)


def at_tau(cells: Sequence[CellResult], falls: float = 0.0) -> list[CellResult]:
    """The cells along n with tau = n^-falls / 4."""
    return [cell for cell in cells if "sample" in cell.result and cell.parameters["falls"] == falls]


_SMALL_TOO = Neighbour(r"already at $n = 100$, $m = 4$ and $\tau = 1/4$", {"small_too": True})
_FALLING = Neighbour(r"with $\tau = n^{-0.5} / 4$, too", {"falls": 0.5})


def _silent(
    cells: Sequence[CellResult], part: str, shows: dict[str, bool], small_too: bool, falls: float = 0.0
) -> Finding:
    """Return `holds asymptotically` if the part fails with probability at most delta / n from some n on.

    `small_too` requires this at n = 100 as well. It holds for every tau that decreases more slowly than the largest
    standard deviation of the sums, n^-0.3 for f_exp on D0 and n^-0.5 for f_lin, and fails for a tau that decreases as
    fast.
    """
    paths = at_tau(cells, falls)
    (size,) = (cell.result for cell in cells if "sample" not in cell.result)
    reached = [rare_from(cell.result, part) for cell in paths]
    numbers: dict[str, float | str] = {
        f"failure <= delta / n, for all data, C = {cell.parameters['width']:g}, from": power_of_ten(n)
        for cell, n in zip(paths, reached, strict=True)
    }
    numbers["probability at n = 100, m = 4, random data, at least"] = size[part]
    late = small_too and size[part] < 1 - float(DELTA) / 100
    verdict = Verdict.FAILS_AS_PRINTED if None in reached or late else Verdict.HOLDS_ASYMPTOTICALLY
    return Finding(verdict, numbers, shows=shows)


@claim(
    where="Lemma 5.1",
    says=r"On every data set of $\mathcal{D}_0$, $F_{\text{exp}} = 0$ with probability $1 - \delta / \text{poly}(n)$.",
    cells=_network_cells,
    figures=("regression_failures",),
    errata=(
        Erratum(
            printed=r"$m \le \delta / \text{poly}(n)$ (also in the proofs of Lemmas 5.3 and 5.4).",
            right=r"$m \le \text{poly}(n)$, so that $m \delta / \text{poly}(n)$ is again $\delta / \text{poly}(n)$.",
            why=r"$m$ is at least 1, and $\delta / \text{poly}(n)$ is below 1.",
            rank=Rank.PROOF,
            at="Lemma 5.1, proof",
            shown_by="m > delta at every n, and m <= n^2",
        ),
        typographical(
            printed=r"$F_{\text{lin}}(A, x) = \phi(\sum_l \phi_\tau(\langle f_{\text{exp}}(A, x), y_l \rangle))$.",
            right=r"$F_{\text{exp}}(A, x)$ on the left.",
            why="The two networks have different values on the same data. (The proof of Lemma 4.2, Part 1, prints $u$ "
            r"for $u_{\text{lin}}$.)",
            at="Lemma 5.1, proof",
            shown_by="F_exp and F_lin differ on the same data",
        ),
    ),
    neighbours=(_SMALL_TOO, Neighbour(r"with $\tau = n^{-0.3} / 4$, too", {"falls": 0.3})),
)
def lemma_5_1(cells: Sequence[CellResult], small_too: bool = False, falls: float = 0.0) -> Finding:
    paths = [cell.result for cell in at_tau(cells)]
    widths = [(m, log10_n) for path in paths for m, log10_n in zip(path["m"], path["log10_n"], strict=True)]
    shows = {
        "m > delta at every n, and m <= n^2": all(
            m > float(DELTA) and math.log10(m) <= 2 * log10_n for m, log10_n in widths
        ),
        "F_exp and F_lin differ on the same data": all(
            abs(path["sample"][0] - path["sample"][1]) > 1e-6 for path in paths
        ),
    }
    return _silent(cells, "exp_silent_on_d0", shows, small_too, falls)


@claim(
    where="Lemma 5.3",
    says=r"On every data set of $\mathcal{D}_0$, $F_{\text{lin}} = 0$ with probability $1 - \delta / \text{poly}(n)$.",
    cells=_network_cells,
    figures=("regression_failures",),
    neighbours=(_SMALL_TOO, _FALLING),
)
def lemma_5_3(cells: Sequence[CellResult], small_too: bool = False, falls: float = 0.0) -> Finding:
    return _silent(cells, "lin_silent_on_d0", {}, small_too, falls)


@claim(
    where="Lemma 5.4",
    says=r"On every data set of $\mathcal{D}_1$, $F_{\text{lin}} = 0$ with probability $1 - \delta / \text{poly}(n)$.",
    cells=_network_cells,
    figures=("regression_failures",),
    neighbours=(_SMALL_TOO, _FALLING),
)
def lemma_5_4(cells: Sequence[CellResult], small_too: bool = False, falls: float = 0.0) -> Finding:
    return _silent(cells, "lin_silent_on_d1", {}, small_too, falls)


@claim(
    where="Lemma 5.2",
    says=r"On every data set of $\mathcal{D}_1$, $F_{\text{exp}} > 0$ with probability $1 - \delta / \text{poly}(n)$.",
    cells=joined(_network_cells, cell_grid(networks, {"width": (1.43, 1.45)}, falls=0.0), entry_cells),
    figures=("regression_failures",),
    errata=(
        Erratum(
            printed=r"$m = C \log(n / \delta)$ for some $C > 1$; $(1/2)^m \le \delta / \text{poly}(n)$.",
            right=r"$C \ge 1 / \log 2 = 1.443$.",
            why=r"$(1/2)^m = (\delta / n)^{C \log 2}$, and the power of $\delta$ must be at least 1.",
            rank=Rank.PROOF,
            at="Definition 3.7",
            shown_by="m = log(n / delta) is too few",
        ),
        typographical(
            printed="The sums of Section 5 go from $l = 0$ to $m$.",
            right="They go from $l = 1$.",
            why="$y$ has $m$ columns; $m + 1$ columns would give the probability $1 - 2^{-(m + 1)}$, but it is $1 - "
            "2^{-m}$.",
            at="Section 5",
            shown_by="the probability is 1 - 2^-m and not 1 - 2^-(m+1)",
        ),
        Erratum(
            printed=r"By Lemma 4.2, $\phi_\tau(\langle f_{\text{exp}}, y_l \rangle) > 1/4$ with probability $1/2$.",
            right=r"$\langle f_{\text{exp}}, y_l \rangle$ is above $1/2$ if it is positive; hence $\phi_\tau$ is "
            r"then above $1/4$ at $\tau = 1/4$.",
            why=r"Lemma 4.2 gives only $\lvert \langle f_{\text{exp}}, y_l \rangle \rvert \ge 1/4$, for which "
            r"$\phi_\tau$ may be 0.",
            rank=Rank.PROOF,
            at="Lemma 5.2, proof",
            shown_by="<f_exp, y> is above 1/2 where it is positive",
        ),
    ),
    neighbours=(
        Neighbour(r"with $m = 1.43 \log(n / \delta)$", {"width": 1.43}),
        Neighbour(r"with $m = \log(n / \delta)$", {"width": 1.0}),
    ),
)
def lemma_5_2(cells: Sequence[CellResult], width: float = 1.45) -> Finding:
    paths = {cell.parameters["width"]: cell.result for cell in at_tau(cells)}
    (size,) = (cell.result for cell in cells if "exp_fires_on_d1" in cell.result and "sample" not in cell.result)
    bounds, _ = split(cells)
    enough, printed = rare_from(paths[width], "exp_fires_on_d1"), rare_from(paths[1.0], "exp_fires_on_d1")
    above = all(cell.result["above_half"] for cell in bounds)
    numbers: dict[str, float | str] = {
        "probability of failure <= delta / n, m = 1.45 log(n / delta), from": power_of_ten(enough),
        "the same, m = log(n / delta), from": power_of_ten(printed),
        "probability at n = 100, m = 4": size["exp_fires_on_d1"],
        "1 - 2^-m there": 1 - 2.0**-4,
        "<f_exp, y> above 1/2 where positive, for all data, n >= 2": "yes" if above else "no",
    }
    shows = {
        "m = log(n / delta) is too few": printed is None,
        "the probability is 1 - 2^-m and not 1 - 2^-(m+1)": size["exp_fires_on_d1"] == 1 - 2.0**-4 != 1 - 2.0**-5,
        "<f_exp, y> is above 1/2 where it is positive": above,
    }
    return holds_if(enough is not None, numbers, "F_exp on D1 is exact: 1 - 2^-m.", shows=shows)
