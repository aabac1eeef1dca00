"""Definitions 3.2 to 3.8: the functions, the networks and the data sets of softmax regression, as they are printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.attention.linear import linear_attention
from separatrix.attention.operator import tensor_attention
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Claim, Erratum, Finding, Neighbour, claim, holds_if, typographical
from separatrix.lab.registry import experiment
from separatrix.separation.datasets import RegressionInput, regression_input
from separatrix.separation.decimals import log_width
from separatrix.separation.networks import linear_regression, rectified, softmax_regression
from separatrix.separation.simulation import random_signs

TIGHT = 1e-12


@experiment(version=1, name="separation.definitions_3")
def regression(n: int, d: int, m: int, tau: float, seed: int) -> dict[str, float | int]:
    """Compare f_lin, f_exp, phi_tau and both networks in loops with the library, and with wrong variants.

    The scores are positive, as in Definition 3.8, so that f_lin is defined.
    """
    generator = torch.Generator().manual_seed(seed)
    A, x = (torch.rand(*shape, generator=generator, dtype=torch.float64) + 0.5 for shape in ((n, d), (d,)))
    y = 2.0 * torch.randint(0, 2, (n, m), generator=generator).double() - 1
    u = [sum(float(A[i, k] * x[k]) for k in range(d)) for i in range(n)]
    lin, exp = [s / sum(u) for s in u], [math.exp(s) / sum(map(math.exp, u)) for s in u]
    eye = torch.eye(n, dtype=torch.float64)
    data = RegressionInput(A, x, None)

    def network(f: Sequence[float], tau: float) -> float:
        inner = [sum(f[i] * float(y[i, j]) for i in range(n)) for j in range(m)]
        return max(sum(max(z - tau, 0.0) for z in inner), 0.0)

    by_library = {"lin": linear_attention(x[None], A, eye)[0], "exp": tensor_attention(x[None], A, eye, scale=1.0)[0]}
    z = torch.linspace(-2, 2, 9, dtype=torch.float64)
    nets = {"lin": float(linear_regression(data, y, tau)), "exp": float(softmax_regression(data, y, tau))}
    return {
        "f_lin": float((by_library["lin"] - torch.tensor(lin, dtype=torch.float64)).abs().max()),
        "f_lin of exp": float((by_library["lin"] - torch.tensor(exp, dtype=torch.float64)).abs().max()),
        "f_exp": float((by_library["exp"] - torch.tensor(exp, dtype=torch.float64)).abs().max()),
        "f_exp of lin": float((by_library["exp"] - torch.tensor(lin, dtype=torch.float64)).abs().max()),
        "phi": max(abs(float(rectified(v, tau)) - max(float(v) - tau, 0.0)) for v in z),
        "phi, tau added": max(abs(float(rectified(v, tau)) - max(float(v) + tau, 0.0)) for v in z),
        "F_exp": abs(nets["exp"] - network(exp, tau)),
        "F_exp, unshifted": abs(nets["exp"] - network(exp, 0.0)),
        "F_lin": abs(nets["lin"] - network(lin, tau)),
        "F_lin of exp": abs(nets["lin"] - network(exp, tau)),
        "fires": int(nets["exp"] > 0) + int(nets["lin"] > 0),
    }


@experiment(version=2, name="separation.definitions_3_data")
def drawn(n: int, delta: float, constant: float, seed: int) -> dict[str, float | int]:
    """The signs of Definition 3.7 and the data of Definition 3.8: their ranges, and the frequencies of the signs."""
    generator = torch.Generator().manual_seed(seed)
    m = log_width(n, delta, constant=constant)
    y = random_signs((n, m), generator).double()
    plain = regression_input(n, generator)
    special = regression_input(n, generator, special=n // 2)
    scores = {name: (data.A @ data.x) / math.log(n) for name, data in (("D0", plain), ("D1", special))}
    other_rows = scores["D1"][torch.arange(n) != n // 2]
    return {
        "width": m,
        "log": math.log(n / delta),
        "rows": y.shape[0],
        "not_signs": int((y.abs() != 1).sum()),
        "sigmas": abs(float(y.mean())) * math.sqrt(y.numel()),
        "least": float(torch.cat([scores["D0"], other_rows]).min()),
        "largest": float(torch.cat([scores["D0"], other_rows]).max()),
        "special": float(scores["D1"][n // 2]),
        "above_4": int((scores["D1"] > 2).sum()),
    }


_data_cells = cell_grid(
    drawn, {"n delta constant": ((4, 0.09, 1.5), (50, 0.01, 1.01), (50, 0.01, 3.48), (2000, 0.001, 2.0))}
)

LAYERS = typographical(
    printed=r"$F_{\exp}$ is a three-layer network (Definition 3.5), and $F_{\text{lin}}$ a four-layer "
    "network (Definition 3.6).",
    right="Both networks have the same number of layers. Theorems 1.1 and 1.2 call both of them four-layer networks.",
    why=r"They differ only in $\text{exp}$ and $\text{lin}$: each has attention, $m$ neurons, and the neuron that "
    "sums them. (The caption of Figure 1 places the network in Section 4; Section 3.2 defines it.)",
    shown_by="the two networks differ in their weights alone",
)


def _functions(
    where: str, says: str, defines: Sequence[str], right: str, wrong: str, instead: str, errata: Sequence[Erratum] = ()
) -> Claim:
    """Register the definition of a function, for which loops and the library must agree."""

    @claim(
        where=where,
        says=says,
        cells=cell_grid(
            regression,
            {"n d m tau": ((1, 1, 1, 0.1), (4, 3, 2, 0.05), (9, 2, 5, 0.25), (6, 7, 3, 0.01)), "seed": range(3)},
        ),
        defines=defines,
        errata=errata,
        neighbours=(Neighbour(instead, {"formula": wrong}),),
        home=__name__,
    )
    def check(cells: Sequence[CellResult], formula: str = right) -> Finding:
        worst = max(cell.result[formula] for cell in cells)
        numbers: dict[str, float | str] = {"inputs": len(cells), "largest difference from the loops": worst}
        # The same loops with other weights compute both networks, so they have the same layers.
        alike = max(cell.result[name] for cell in cells for name in ("F_exp", "F_lin")) <= TIGHT
        fired = sum(cell.result["fires"] for cell in cells) > 0
        return holds_if(worst <= TIGHT and fired, numbers, shows={erratum.shown_by: alike for erratum in errata})

    return check


_functions(
    "Definition 3.2",
    "The weights of linear attention are $A x$ divided by the sum of its entries.",
    ("separatrix.linear_attention",),
    "f_lin",
    "f_lin of exp",
    r"$\exp(A x)$ divided by the sum of its entries",
)
_functions(
    "Definition 3.3",
    r"The weights of softmax attention are $\exp(A x)$ divided by the sum of its entries.",
    ("separatrix.tensor_attention",),
    "f_exp",
    "f_exp of lin",
    "$A x$ over the sum of its entries",
)
_functions(
    "Definition 3.4",
    r"ReLU is $\phi(z) = \max\lbrace z, 0 \rbrace$, and ReLU shifted by $\tau$ is $\phi_\tau(z) = \max\lbrace z - "
    r"\tau, 0 \rbrace$.",
    ("separatrix.separation.networks.rectified",),
    "phi",
    "phi, tau added",
    r"$\phi_\tau(z) = \max \lbrace z + \tau, 0 \rbrace$",
)
_functions(
    "Definition 3.5",
    "The network with softmax weights sums $m$ neurons, each of which is the shifted ReLU of an inner product of "
    "the weights with a sign vector.",
    ("separatrix.separation.networks.softmax_regression",),
    "F_exp",
    "F_exp, unshifted",
    r"with $\phi$ in place of $\phi_\tau$",
    (LAYERS,),
)
_functions(
    "Definition 3.6",
    "The network with linear weights is that of Definition 3.5 with linear weights in place of softmax weights.",
    ("separatrix.separation.networks.linear_regression",),
    "F_lin",
    "F_lin of exp",
    "with softmax weights",
)


@claim(
    where="Definition 3.7",
    says=r"There are $m = C \log(n / \delta)$ sign vectors of length $n$, for a constant $C > 1$, drawn uniformly.",
    cells=_data_cells,
    defines=("separatrix.separation.decimals.log_width", "separatrix.separation.simulation.random_signs"),
    neighbours=(
        Neighbour(r"$m = \log(n / \delta)$ for every $C$", {"power": 0.0}),
        Neighbour(r"$m = 1.1 C \log(n / \delta)$", {"factor": 1.1}),
    ),
    history=("Until 2026-11-18 all cells had $C = 1$, but the definition has $C > 1$.",),
)
def definition_3_7(cells: Sequence[CellResult], factor: float = 1.0, power: float = 1.0) -> Finding:
    """Check that signs are fair to six standard errors; fair signs fail with probability 2e-9 in each cell."""
    mismatched = sum(
        cell.result["width"] != math.floor(factor * cell.parameters["constant"] ** power * cell.result["log"])
        for cell in cells
    )
    bad = sum(cell.result["not_signs"] for cell in cells)
    far = max(cell.result["sigmas"] for cell in cells)
    numbers: dict[str, float | str] = {
        "constants C": ", ".join(f"{cell.parameters['constant']:g}" for cell in cells),
        "settings whose m is not floor(C log(n / delta))": mismatched,
        "entries that are not signs": bad,
        "largest distance of the mean sign from 0, in standard errors": far,
    }
    return holds_if(not mismatched and not bad and far <= 6, numbers)


@claim(
    where="Definition 3.8",
    says=r"In the first data set all scores are between $\log n$ and $1.4 \log n$; in the second, one of them is $4 "
    r"\log n$.",
    cells=_data_cells,
    defines=("separatrix.separation.datasets.regression_input",),
    neighbours=(
        Neighbour(r"all scores between $\log n$ and $1.3 \log n$", {"most": 1.3}),
        Neighbour(r"the special score is $3 \log n$", {"special": 3.0}),
    ),
)
def definition_3_8(cells: Sequence[CellResult], most: float = 1.4, special: float = 4.0) -> Finding:
    """Check the scores of random elements, in units of log n."""
    low, high = min(cell.result["least"] for cell in cells), max(cell.result["largest"] for cell in cells)
    off = max(abs(cell.result["special"] - special) for cell in cells)
    more = sum(cell.result["above_4"] != 1 for cell in cells)
    numbers: dict[str, float | str] = {
        "least score / log n": low,
        "largest score / log n without the special one": high,
        "special score / log n - 4, largest": off,
        "elements of D1 without exactly one special score": more,
    }
    return holds_if(low >= 1 - TIGHT and high <= most + TIGHT and off <= TIGHT and not more, numbers)
