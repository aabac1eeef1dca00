"""Definitions 3.2 to 3.8: the functions, the networks and the data sets of softmax regression, as they are printed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from separatrix.attention.linear import linear_attention
from separatrix.attention.operator import tensor_attention
from separatrix.claims.ledger import Claim, Erratum, Finding, Found, Neighbour, Rank, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.datasets import RegressionInput, regression_input
from separatrix.separation.decimals import log_width
from separatrix.separation.networks import linear_regression, rectified, softmax_regression
from separatrix.separation.simulation import random_signs

TIGHT = 1e-12


@experiment(version=1, name="separation.definitions_3")
def regression(n: int, d: int, m: int, tau: float, seed: int) -> dict[str, float | int]:
    """f_lin, f_exp, phi_tau and both networks in loops, against the library's; and what they are not.

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


@experiment(version=1, name="separation.definitions_3_data")
def drawn(n: int, delta: float, seed: int) -> dict[str, float | int]:
    """The signs of Definition 3.7 and the data of Definition 3.8: the ranges they lie in, and how signs come out."""
    generator = torch.Generator().manual_seed(seed)
    m = log_width(n, delta)
    y = random_signs((n, m), generator).double()
    plain = regression_input(n, generator)
    special = regression_input(n, generator, special=n // 2)
    scores = {name: (data.A @ data.x) / math.log(n) for name, data in (("D0", plain), ("D1", special))}
    others = scores["D1"][torch.arange(n) != n // 2]
    return {
        "width": m,
        "log": math.log(n / delta),
        "rows": y.shape[0],
        "not_signs": int((y.abs() != 1).sum()),
        "sigmas": abs(float(y.mean())) * math.sqrt(y.numel()),
        "least": float(torch.cat([scores["D0"], others]).min()),
        "largest": float(torch.cat([scores["D0"], others]).max()),
        "special": float(scores["D1"][n // 2]),
        "above_4": int((scores["D1"] > 2).sum()),
    }


def _cells() -> Iterator[Cell]:
    for n, d, m, tau in ((1, 1, 1, 0.1), (4, 3, 2, 0.05), (9, 2, 5, 0.25), (6, 7, 3, 0.01)):
        for seed in range(3):
            yield regression.cell(seed=seed, n=n, d=d, m=m, tau=tau)


def _data_cells() -> Iterator[Cell]:
    for n, delta in ((4, 0.09), (50, 0.01), (2000, 0.001)):
        yield drawn.cell(seed=0, n=n, delta=delta)


LAYERS = Erratum(
    rank=Rank.TYPOGRAPHICAL,
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
    """A definition of a function: loops and the library must agree."""

    @claim(
        paper="separation",
        where=where,
        says=says,
        cells=_cells,
        defines=defines,
        errata=errata,
        neighbours=(Neighbour(instead, {"formula": wrong}),),
        home=__name__,
    )
    def check(found: Sequence[Found], formula: str = right) -> Finding:
        worst = max(one.result[formula] for one in found)
        numbers: dict[str, float | str] = {"inputs": len(found), "largest difference from the loops": worst}
        # The same loops, with other weights, are both networks: no layer is in one and not in the other.
        alike = max(one.result[name] for one in found for name in ("F_exp", "F_lin")) <= TIGHT
        fired = sum(one.result["fires"] for one in found) > 0
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
    r"with $\phi$ in the place of $\phi_\tau$",
    (LAYERS,),
)
_functions(
    "Definition 3.6",
    "The network with linear weights is that of Definition 3.5 with linear weights in the place of softmax weights.",
    ("separatrix.separation.networks.linear_regression",),
    "F_lin",
    "F_lin of exp",
    "with softmax weights",
)


@claim(
    paper="separation",
    where="Definition 3.7",
    says=r"There are $m = C \log(n / \delta)$ sign vectors of length $n$, drawn uniformly.",
    cells=_data_cells,
    defines=("separatrix.separation.decimals.log_width", "separatrix.separation.simulation.random_signs"),
    neighbours=(Neighbour(r"$m = 2 \log(n / \delta)$", {"constant": 2.0}),),
)
def definition_3_7(found: Sequence[Found], constant: float = 1.0) -> Finding:
    """log_width is C = 1; signs are fair to six standard errors, which chance passes with probability 2e-9."""
    other = sum(one.result["width"] != math.floor(constant * one.result["log"]) for one in found)
    bad = sum(one.result["not_signs"] for one in found)
    far = max(one.result["sigmas"] for one in found)
    numbers: dict[str, float | str] = {
        "settings with another m than floor(log(n / delta))": other,
        "entries that are not signs": bad,
        "largest distance of the mean sign from 0, in standard errors": far,
    }
    return holds_if(not other and not bad and far <= 6, numbers)


@claim(
    paper="separation",
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
def definition_3_8(found: Sequence[Found], most: float = 1.4, special: float = 4.0) -> Finding:
    """Scores of drawn elements, in units of log n."""
    low, high = min(one.result["least"] for one in found), max(one.result["largest"] for one in found)
    off = max(abs(one.result["special"] - special) for one in found)
    more = sum(one.result["above_4"] != 1 for one in found)
    numbers: dict[str, float | str] = {
        "least score / log n": low,
        "largest score / log n but for the special one": high,
        "special score / log n - 4, largest": off,
        "elements of D1 without just one special score": more,
    }
    return holds_if(low >= 1 - TIGHT and high <= most + TIGHT and off <= TIGHT and not more, numbers)
